"""`gputel compare`: what it prints, writes and ends with."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gputel.analysis import spread
from gputel.analysis.logs.files import Limits
from gputel.analysis.logs.formats import Format
from gputel.analysis.logs.log import Log
from gputel.analysis.runs import paths
from gputel.cli import main
from gputel.telemetry import run_folder
from gputel.telemetry.errors import GputelError
from tests import command

SAMPLES = Path(__file__).parents[2] / "sample_logs"
D16, D24 = SAMPLES / "d16-base.log.gz", SAMPLES / "d24-base.log.gz"
MID, NO_LOGS = SAMPLES / "mid-training.log", (SAMPLES.parent / "LICENSE", SAMPLES.parent / "Makefile")
TABLE = """\
  step   d16-base   d24-base   difference
─────────────────────────────────────────
     0    11.0904    11.0904       0.0000
 1,000     3.4627     3.3553      -0.1074
 5,000     3.0704     2.9279      -0.1425
10,000     2.9700     2.8135      -0.1565
12,000     2.9072     2.8153      -0.0918
"""


@pytest.fixture
def gputel(capsys: pytest.CaptureFixture[str]) -> Any:
    """`code, out, err = gputel("compare", ...)`."""

    def call(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        result = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, result.out, result.err

    return call


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Six small runs of three settings."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for i in range(6):
        lines = [f"step {n} | loss: {5 - n / 300 + i / 100:.4f} | dt: 1000.00ms\n" for n in range(1001)]
        (folder / f"run{i}.log").write_text(f"num_layers: {i // 2 + 2}\n" + "".join(lines))
    return folder


def test_process_prints_the_first_users_table() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "gputel", "compare", D16, D24], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0
    assert result.stdout.startswith("d16-base, d24-base: synthetic log\nphase base of 2 runs: loss by step\n")
    assert TABLE in result.stdout
    assert max(len(line) for line in result.stdout.split("\nNotes\n")[0].splitlines()) <= 80


def test_summary_says_what_each_run_came_to(gputel: Any) -> None:
    _, out, _ = gputel("compare", D16, D24, "--price", 4, "--target", "loss=2.9")
    summary = out.split("\nSummary\n")[1].split("\n\n")[0]
    rows = {
        name: cells for name, *cells in (re.split(r"\s{2,}", line.strip()) for line in summary.splitlines())
    }
    for name, cells in {
        "parameters": ["335.5M", "880.8M"],
        "time": ["4 h 19 min", "10 h 09 min"],
        "cost": ["$34.56", "$81.24"],
        "best val_bpb @ step": ["0.7967 @ 12,800", "0.8051 @ 10,750"],
        "steps to loss 2.9": ["11,879", "5,496"],
        "cost to loss 2.9": ["$32.08", "$35.87"],
        "tok/s": ["431,260 ±150", "178,144 ±32"],
        "MFU %": ["43.9", "50.3"],
        "interruptions": ["0", "0"],
        "depth": ["16", "24"],
    }.items():
        assert rows[name] == cells


def test_json_has_every_table_and_is_strict(gputel: Any) -> None:
    code, out, _ = gputel("compare", D16, D24, "--json", "--target", "loss=2.9")
    assert code == 0
    found = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert list(found) == [
        "schema", "by", "metric", "phase", "phases", "smooth_steps", "runs", "groups", "axes", "milestones",
        "summary", "validations", "equal", "targets", "settings", "scaling", "notes", "cautions",
        "doubts",
    ]  # fmt: skip
    assert [row["x"] for row in found["milestones"]] == [0, 1000, 5000, 10000, 12000]
    assert found["milestones"][1]["runs"]["d24-base"] == {
        "value": 3.355294, "difference": pytest.approx(-0.107418), "interpolated": False,
    }  # fmt: skip
    assert found["summary"]["d16-base"]["parameters"] == 335_544_320
    assert found["summary"]["d16-base"]["energy_j"] is None
    assert found["axes"] == ["step", "tokens", "time", "flops"]
    assert found["settings"]["depth"] == {"d16-base": "16", "d24-base": "24"}
    assert found["scaling"]["law"] is None
    assert found["targets"][0]["runs"]["d16-base"]["step"] == 11879


def test_values_are_means_over_the_steps_of_smooth(gputel: Any, tmp_path: Path) -> None:
    """Losses that alternate between 2 and 3 are 2.5 over 50 steps, and the last one over a single step."""
    for name in "ab":
        lines = [f"step {n} | loss: {2 + n % 2}.0 | dt: 9ms\n" for n in range(200)]
        (tmp_path / f"{name}.log").write_text("".join(lines))

    def values(steps: int) -> set[float]:
        _, out, _ = gputel("compare", tmp_path, "--smooth", steps, "--json")
        answer = json.loads(out)
        assert answer["smooth_steps"] == steps
        return {row["value"] for each in answer["equal"] for row in each["runs"].values()}

    assert values(1) == {3.0}
    assert values(50) == {2.5}


def test_more_than_four_runs_stand_below_each_other(gputel: Any, logs: Path) -> None:
    code, out, _ = gputel("compare", logs)
    assert code == 0
    assert "run         0    1,000\n" in out
    assert "run0   5.0000   1.6667\n" in out
    assert "Difference from run0\n" in out
    assert "run5   0.0500   0.0500\n" in out
    assert out.count("\nSummary\n") == 1


def test_groups_are_means_with_their_deviation(gputel: Any, logs: Path) -> None:
    _, out, _ = gputel("compare", logs, "--group", "depth")
    assert out.startswith("phase train of 6 runs in 3 groups: loss by step\n")
    assert "5.0050 ±0.0071" in out
    assert "± one standard deviation" in out


def test_csv_and_markdown_are_written_where_asked(gputel: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, _, err = gputel("compare", D16, D24, "--csv", "--markdown", "--out", out)
    assert code == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "gputel-compare.curves.csv", "gputel-compare.equal.csv", "gputel-compare.md",
        "gputel-compare.milestones.csv", "gputel-compare.settings.csv", "gputel-compare.summary.csv",
        "gputel-compare.validations.csv",
    ]  # fmt: skip
    assert f"wrote {out / 'gputel-compare.md'}" in err
    rows = list(csv.reader((out / "gputel-compare.milestones.csv").read_text().splitlines()))
    assert rows[0] == ["step", "d16-base", "d24-base", "d24-base - d16-base"]
    assert [row[0] for row in rows[1:]] == ["0", "1000", "5000", "10000", "12000"]
    assert float(rows[2][3]) == pytest.approx(-0.107418)
    page = (out / "gputel-compare.md").read_text()
    assert "| 1,000 | 3.4627 | 3.3553 | -0.1074 |" in page
    assert "\n### Notes\n\ntime is the log's own total time" in page


def test_markdown_may_name_its_file(gputel: Any, tmp_path: Path) -> None:
    page = tmp_path / "reports" / "depths.md"
    assert gputel("compare", D16, D24, "--markdown", "--out", page)[0] == 0
    assert page.read_text().startswith("<!-- written by gputel compare -->\n\n**phase base of 2 runs")


def test_only_files_of_its_own_are_overwritten(gputel: Any, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.log").write_text("step 0 | loss: 1.0\nstep 1 | loss: 0.9\n")
    words = ("compare", tmp_path / "a.log", tmp_path / "b.log", "--markdown", "--out", tmp_path)
    assert gputel(*words)[0] == 0
    assert gputel(*words)[0] == 0
    page = tmp_path / "gputel-compare.md"
    page.write_text("# my notes\n")
    code, _, err = gputel(*words)
    assert code == 1
    assert err == f"error: {page}: was not written by gputel; choose another path, or --force it\n"
    assert page.read_text() == "# my notes\n"
    assert gputel(*words, "--force")[0] == 0


def test_markdown_from_a_log_is_text(gputel: Any, tmp_path: Path) -> None:
    for name in ("a|b<i>", "c"):
        (tmp_path / f"{name}.log").write_text("step 0 | loss: 1.0\nstep 1 | loss: 0.9\n")
    gputel("compare", tmp_path / "a|b<i>.log", tmp_path / "c.log", "--markdown", "--out", tmp_path)
    assert "| step | a\\|b&lt;i> | c | difference |" in (tmp_path / "gputel-compare.md").read_text()


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        ((D16,), 2, f"{D16}: is one run, and a comparison needs two; name another"),
        ((D16, NO_LOGS[0]), 1, "only one run could be parsed, and a comparison needs two; name another"),
        ((D16, D24, "--by", "cost"), 2, "--by cost: no price was given; add --price 4 for a GPU hour"),
        ((D16, D24, "--by", "energy"), 1, "--by energy: d16-base: no GPU was measured; compare by"),
        ((D16, MID), 1, "d16-base, mid-training: nothing in common: no phase that two runs have"),
        (NO_LOGS, 3, "nothing could be parsed; try gputel parse"),
        (
            (D16, D24, "--target", "loss"),
            2,
            "Invalid value for '--target': 'loss' is not a target like loss=2.9",
        ),
    ],
    ids=["one run", "one log", "no price", "no energy", "no phase", "no log", "no target"],
)
def test_runs_that_cannot_be_compared_are_one_line(
    gputel: Any, words: tuple[object, ...], code: int, error: str
) -> None:
    ended, out, err = gputel("compare", *words)
    assert (ended, out) == (code, "")
    assert error in err.splitlines()[-1]


def test_tags_of_recordings_are_settings_also_where_the_run_went_on(gputel: Any, tmp_path: Path) -> None:
    """Two recordings of one name, told apart by their folders; the second has a segment without tags."""
    for name, tags in (("a", {"lr": "60"}), ("b", {"lr": "30"})):
        folder = run_folder.create(tmp_path / name, {"run": "tiny", "tags": tags})
        folder.output.write_text("step 0 | loss: 5.0\nstep 1 | loss: 4.0\n")
    later = run_folder.add_segment(tmp_path / "b", {"run": "tiny", "tags": {}})
    later.output.write_text("step 2 | loss: 3.0\n")
    _, out, _ = gputel("compare", tmp_path / "a", tmp_path / "b", "--json")
    found = json.loads(out)
    assert found["settings"] == {"lr": {"a": "60", "b": "30"}}
    assert found["summary"]["b"]["interruptions"] == 1


def test_log_may_come_from_a_pipe(logs: Path) -> None:
    piped = (logs / "run0.log").read_bytes()
    result = command.gputel("compare", "-", logs / "run1.log", given=piped)
    assert result.returncode == 0
    assert " stdin " in result.stdout


def read_or_die(
    names: Sequence[Path], formats: tuple[Format, ...] | None, limits: Limits
) -> Iterator[Log | GputelError]:
    """Reads logs; one called deadly kills the process."""
    for path in names:
        if path.name == "deadly.log":
            os.kill(os.getpid(), signal.SIGKILL)
        yield from paths.read_logs([path], formats, limits)


@pytest.mark.long
def test_runs_that_are_read_in_several_processes_compare_equally(
    logs: Path, gputel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("compare", logs, SAMPLES.parent / "sample_runs", D16, "--json")
    here = gputel(*asked)
    monkeypatch.setattr(spread, "workers_for", lambda _cpu_s: 2)
    assert gputel(*asked) == here
    assert here[0] == 0


@pytest.mark.long
def test_run_that_kills_the_process_that_reads_it_is_named(
    logs: Path, gputel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (logs / "run3.log").rename(logs / "deadly.log")
    monkeypatch.setattr(spread, "workers_for", lambda _cpu_s: 2)
    monkeypatch.setattr(paths, "_read", read_or_die)
    fault = "reading it killed the process that read it; is there enough memory?"
    assert gputel("compare", logs) == (1, "", f"error: {logs}/deadly.log: {fault}\n")
