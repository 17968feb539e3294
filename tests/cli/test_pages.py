"""`--html`, `--png`, `--svg` and `--pdf` of every command: what is written, and where, of whatever people have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from gputel.cli import group
from gputel.telemetry import run_folder
from tests.recordings.printed import clock, fill, step

ROOT = Path(__file__).resolve().parents[2]
D16, D24 = (str(ROOT / "sample_logs" / f"d{depth}-base.log.gz") for depth in (16, 24))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def call(*words: str, code: int = 0) -> str:
    answer = CliRunner().invoke(group, [*words], standalone_mode=False)
    assert answer.exception is None, answer.exception
    assert (answer.return_value or 0) == code
    return answer.stderr


def is_page(path: Path) -> bool:
    return path.read_text().startswith("<!doctype html>")


@pytest.mark.long
def test_compare_writes_a_page_and_a_picture_of_each_panel() -> None:
    result = call("compare", D16, D24, "--html", "--svg")
    assert "wrote gputel-compare.html\nwrote gputel-compare-loss.svg\n" in result
    assert is_page(Path("gputel-compare.html"))


@pytest.mark.long
def test_one_picture_holds_all_panels() -> None:
    call("compare", D16, D24, "--pdf", "--out", "figures/all.pdf")
    assert Path("figures/all.pdf").read_bytes().startswith(b"%PDF")
    assert len(list(Path("figures").iterdir())) == 1


def test_page_of_another_program_is_left_alone() -> None:
    Path("gputel-compare.html").write_text("mine")
    answer = CliRunner().invoke(group, ["compare", D16, D24, "--html"], standalone_mode=False)
    assert str(answer.exception) == (
        "gputel-compare.html: was not written by gputel; choose another path, or --force it"
    )
    call("compare", D16, D24, "--html", "--force")
    assert is_page(Path("gputel-compare.html"))


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("report", D16), "x.html: is one file, and --html --png was asked for; name a folder"),
        (("parse", D16), "x.html: is one file, and --html --png was asked for; name a folder"),
        (("compare", D16, D24), "x.html: is one file, and --html --png was asked for; name a folder"),
    ],
)
def test_file_that_cannot_be_written_is_refused_before_anything_is_printed(
    words: tuple[str, ...], fault: str
) -> None:
    answer = CliRunner().invoke(group, [*words, "--html", "--png", "--out", "x.html"], standalone_mode=False)
    assert (str(answer.exception), answer.stdout) == (fault, "")


def test_file_that_is_no_page_is_not_taken_for_a_folder() -> None:
    Path("train.py").write_text("mine")
    answer = CliRunner().invoke(group, ["report", D16, "--html", "--out", "train.py"], standalone_mode=False)
    fault = "train.py: is a file, and not one that this would write; name a folder"
    assert (str(answer.exception), answer.stdout) == (fault, "")


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (("report", "a.log"), "--html, --png, --svg, --pdf"),
        (("parse", "a.log"), "--csv, --parquet, --html, --png, --svg, --pdf"),
        (("compare", "a.log", "b.log"), "--csv, --markdown, --html, --png, --svg, --pdf"),
        (("plan", "--depth", "16", "--on", "H100"), "--csv, --html"),
    ],
)
def test_place_where_nothing_is_to_be_written_is_wrong_usage(
    words: tuple[str, ...], flags: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        Path(f"{name}.log").write_text("".join(f"{step(n)}\n" for n in range(20)))
    answer = CliRunner().invoke(group, [*words, "--out", "x"])
    assert (answer.exit_code, answer.stdout) == (2, "")
    fault = f"--out says where to write, and nothing is to be written; add one of {flags}"
    assert fault in " ".join(answer.stderr.split())
    monkeypatch.setenv(f"GPUTEL_{words[0].upper()}_OUT", "x")
    assert CliRunner().invoke(group, [*words]).exit_code == 0


def test_one_file_holds_one_thing_also_where_a_table_is_asked_for() -> None:
    words = ["plan", "--depth", "16", "--on", "H100", "--html", "--csv", "--out", "x.html"]
    answer = CliRunner().invoke(group, words, standalone_mode=False)
    assert str(answer.exception) == "x.html: is one file, and --html --csv was asked for; name a folder"
    call("plan", "--depth", "16", "--on", "H100", "--csv", "--out", "x.csv")
    call("compare", D16, D24, "--markdown", "--out", "x.md")
    assert sorted(path.name for path in Path().iterdir()) == ["x.csv", "x.md"]


def test_report_writes_the_page_of_a_run_of_a_log_and_of_readings() -> None:
    Path("d12.log").write_text("".join(f"{step(n)}\n" for n in range(20)))
    Path("dmon.txt").write_text(
        "# gpu   pwr gtemp\n# Idx     W     C\n    0   300    50\n    0   310    51\n"
    )
    run_folder.create(Path("empty"), {"run": "empty"})
    segment = run_folder.create(Path("printed"), {"run": "printed", "started": clock(0), "ended": clock(30)})
    fill(segment, [(1.0 + n, step(n, dt_ms=1000)) for n in range(20)])
    for number, name in enumerate(("d12.log", "dmon.txt", "empty", "printed")):
        call("report", name, "--html", "--out", f"{number}.html")
        assert is_page(Path(f"{number}.html"))


def test_readings_and_a_log_that_were_never_recorded_together_are_one_page() -> None:
    rows = "".join(f"2026/03/01 10:00:{s:02d}.000, 0, {300 + s} W, 97 %\n" for s in range(40))
    Path("gpu.csv").write_text("timestamp, index, power.draw [W], utilization.gpu [%]\n" + rows)
    lines = "".join(f"2026-03-01 10:00:{5 + n:02d} {step(n, dt_ms=1000)}\n" for n in range(20))
    Path("train.log").write_text(lines)
    call("report", "--gpu", "gpu.csv", "--log", "train.log", "--html")
    page = Path("gputel-report.html").read_text()
    assert '"name":"power"' in page
    assert '"name":"loss"' in page


@pytest.mark.long
def test_record_leaves_its_page_in_the_runs_folder() -> None:
    command = [
        sys.executable,
        "-m",
        "gputel",
        "record",
        "--simulate",
        "1xH100",
        "--for",
        "2s",
        "--html",
        "--out",
        "a",
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "wrote a/gputel-report.html" in result
    page = Path("a/gputel-report.html").read_text()
    assert "SIMULATED: 1xH100; no real GPU data" in page
    assert call("report", "a").count("error") == 0


def test_pages_beside_logs_are_not_taken_for_logs() -> None:
    Path("logs").mkdir()
    Path("logs/d12.log").write_text("".join(f"{step(n)}\n" for n in range(20)))
    for _ in range(2):
        assert "nothing to parse" not in call("parse", "logs", "--html", "--svg", "--out", "logs")


@pytest.mark.long
@pytest.mark.real_logs
def test_every_real_log_has_a_page(real_logs: Path) -> None:
    for folder in sorted(path for path in real_logs.iterdir() if path.is_dir()):
        answer = CliRunner().invoke(
            group, ["parse", str(folder), "--html", "--out", folder.name], standalone_mode=False
        )
        assert answer.exception is None, (folder, answer.exception)
        assert is_page(Path(folder.name) / "gputel-parse.html")
        assert (Path(folder.name) / "gputel-parse.html").stat().st_size < 1_500_000
