"""`gputel plan` as a process: what it prints, writes and refuses."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gputel.cli import group
from gputel.telemetry.run_folder import create
from gputel.telemetry.store.tiers import Tier, TierColumn
from tests.command import gputel
from tests.recordings.printed import SECOND, clock, fill, step, validation

ROOT = Path(__file__).resolve().parents[2]
D16 = ROOT / "sample_logs" / "d16-base.log.gz"
D24 = ROOT / "sample_logs" / "d24-base.log.gz"
STORY_2 = ("--depth", "64", "--on", "8xH100-PCIe", "--vocab", "32", "--device-batch-size", "4")
BEGUN = 10**9  # seconds; when the clock of `compose` began
READINGS = (("power_w", "W", 1000), ("mem_used_mib", "MiB", 1))
STORY_4 = ("--params", "1.5B", "--tokens", "100B", "--on", "8xA100", "--nodes", "4", "--link", "10Gbit")


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return gputel("plan", *map(str, words))


def answer(*words: object, code: int = 0) -> dict[str, Any]:
    result = run(*words, "--json")
    assert result.returncode == code, result.stderr
    found: dict[str, Any] = json.loads(
        result.stdout, parse_constant=lambda word: pytest.fail(f"{word} is not JSON")
    )
    return found


SHAPE = (
    "plan",
    "--layers",
    "12",
    "--dim",
    "1536",
    "--heads",
    "12",
    "--on",
    "8xH100",
    "--device-batch-size",
    "8",
)


@pytest.mark.parametrize(
    ("option", "figure", "factor"),
    [
        (("--tied",), "parameters", 440_401_920 / 541_065_216),
        (("--ratio", "10"), "tokens", 0.5),
        (("--loss", "chunked"), "logits_gib", 1.796875 / 4),
        (("--eager",), "dt_ms", 50.3 / 30.18),
        (("--plain-attention",), "activations_gib", 28.125 / 10.125),
    ],
)
def test_option_of_the_recipe_changes_its_figure(option: tuple[str, ...], figure: str, factor: float) -> None:
    def planned(*words: str) -> float:
        result = CliRunner().invoke(group, [*SHAPE, *words, "--json"])
        return float(json.loads(result.stdout)["rows"][0][figure])

    assert planned(*option) == pytest.approx(factor * planned(), rel=1e-4)


def test_json_has_integers_in_full_and_for_every_figure_its_range_and_origin() -> None:
    found = answer("--depth", "16,64", "--on", "2xH100", "--device-batch-size", 8, "--price", 4)
    assert found["machine"]["gpus"] == 2
    d16, d64 = found["rows"]
    assert (d16["parameters"], d16["flops_per_token"], d16["steps"]) == (335_544_320, 2_013_265_920, 12_800)
    assert (d16["tokens"], d16["accumulation"], d16["fits"]) == (6_710_886_400, 16, "fits")
    assert d16["ranges"]["hours"][0] < d16["hours"] < d16["ranges"]["hours"][1]
    assert d16["origins"]["hours"]["origin"] == "assumed"
    assert d16["origins"]["parameters"] == {"origin": "computed", "from": ["the shape"]}
    assert set(d16["origins"]) >= set(d16["ranges"])
    assert d64["fits"] == "no"
    assert d64["changes"]


def test_dozen_depths_fit_eighty_columns() -> None:
    depths = "4,8,12,16,18,20,22,24,28,32,40,64"
    result = run(
        "--depth", depths, "--on", "2xH100", "--device-batch-size", 8, "--price", 4, "--data-tokens", "10B"
    )
    assert result.returncode == 0
    _, first, notes_and_details = re.split(r"\n(?=What it takes\n)|\nNotes\n", result.stdout)
    details = notes_and_details[notes_and_details.index("\nExpected\n") :].partition("\nWhere the figures")[0]
    assert max(len(line.rstrip()) for line in (first + details).splitlines()) <= 80
    for depth in depths.split(","):
        assert sum(line.startswith(f"d{depth} ") for line in result.stdout.splitlines()) >= 5


def test_nothing_is_cut_on_a_terminal_of_eighty_columns() -> None:
    ours, theirs = pty.openpty()
    words = ("--depth", "24,64", "--on", "8xH100", "--price", "4", "--data-tokens", "350M")
    env = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-m", "gputel", "plan", *words], stdout=theirs, env=env
    ) as process:
        os.close(theirs)
        said = b""
        while piece := _read(ours):
            said += piece
    os.close(ours)
    assert process.returncode == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", said.decode()).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 80
    assert not any("…" in line for line in lines)
    assert any("13,421,772,800" in line for line in lines)


def _read(terminal: int) -> bytes:
    """Linux ends a terminal whose other side is closed with an error."""
    try:
        return os.read(terminal, 65_536)
    except OSError:
        return b""


def test_plan_says_what_does_not_fit_and_what_would() -> None:
    result = run(*STORY_2)
    assert result.returncode == 0
    text = " ".join(result.stdout.split())
    assert "12,885,164,032" in text
    assert "d64 does not fit:" in text
    assert "--shard" in text.partition("would fit:")[2]


def test_rate_that_is_hoped_for_is_refused_above_the_peak() -> None:
    result = run(*STORY_4, "--target-tok-s", "400000")
    assert result.returncode == 1
    assert result.stderr == (
        "error: --target-tok-s: impossible: 1.5B: 400,000 tok/s is 144% MFU; 277,333 would be 100%, "
        f"{result.stderr.partition('100%, ')[2]}"
    )
    assert result.stderr.count("\n") == 1
    assert result.stdout.split("Between GPUs")[1].splitlines()[3].split()[:3] == ["1.5B", "9.00", "7.20"]
    found = answer(*STORY_4, "--target-tok-s", "400,000", code=1)
    assert found["targets"][0]["possible"] is False
    assert found["rows"][0]["sent_gb"] == pytest.approx(9)
    assert found["rows"][0]["communication_s"] == pytest.approx(7.2)


def test_no_checkpoints_are_asked_for_as_trainers_write_it() -> None:
    words = ("--depth", "16", "--on", "2xH100", "--json", "--save-every")
    assert run(*words, "-1").stdout == run(*words, "0").stdout != run(*words, "100").stdout


def test_rate_may_be_given_in_steps_an_hour() -> None:
    result = run(*STORY_2, "--target-steps-h", "730")
    assert result.returncode == 1
    assert "d64: 106,314 tok/s is 147% MFU" in result.stderr


def test_rate_that_can_be_reached_is_shown_as_mfu() -> None:
    result = run("--depth", 16, "--on", "2xH100", "--target-tok-s", "431260")
    assert result.returncode == 0
    assert "d16: 431,260 tok/s is 44% MFU" in " ".join(result.stdout.split())


def test_budget_finds_the_largest_depth() -> None:
    found = answer("--budget", 1000, "--price", 4, "--on", "8xH100-PCIe", "--vocab", 32)
    best, above = found["rows"]
    assert best["dollars"] <= 1000 < above["dollars"]
    assert f"{best['name']} is the largest that fits; {above['name']} takes" in found["notes"][0]


def test_plan_like_a_run_takes_its_gpus_its_batch_and_its_pace() -> None:
    found = answer("--depth", 24, "--like", D16)
    (row,) = found["rows"]
    assert (found["like"], found["machine"]["gpu"], found["machine"]["gpus"]) == ("d16-base", "H100", 2)
    assert (row["device_batch"], row["accumulation"]) == (8, 16)
    assert row["origins"]["mfu"] == {"origin": "measured", "from": ["MFU of d16-base"]}
    assert row["dt_ms"] / 1000 == pytest.approx(2.94, rel=0.1)
    assert "d16-base: synthetic log" in found["notes"]


def test_check_prints_what_was_planned_beside_what_happened() -> None:
    result = run("--check", D16)
    assert result.returncode == 0
    assert result.stdout.splitlines()[0] == "d16-base: planned and actual"
    for line in ("steps", "ms/step", "tok/s", "MFU %", "h in steps", "W/GPU", "GiB alloc."):
        assert f"\n{line} " in result.stdout
    table = result.stdout.partition("\nNotes\n")[0]
    assert max(len(line.rstrip()) for line in table.splitlines()) <= 80
    found = answer("--check", D16)
    figures = {line["name"]: line for line in found["figures"]}
    assert figures["parameters"]["error_percent"] == 0
    assert figures["power_w"]["happened"] is None
    assert figures["tok_per_sec"]["within"] is True


def record(folder: Path, compose: Callable[..., None], simulated: str | None) -> Path:
    """40 steps of 0.7 s after a start of 30 s, an evaluation of 5 s; two GPUs of 500 and 520 W while they work."""
    shift = BEGUN - clock(0)["wall_ns"] / SECOND
    banner = (
        "Model: depth 12, dim 768, 6 heads of 128, vocabulary 65,536, sequence 2,048, dropout 0",
        "Tokens / micro-batch / rank: 32 x 2048 = 65,536",
        "Total batch size 524,288 => gradient accumulation steps: 4",
    )
    lines = [(shift, line) for line in banner]
    lines += [(shift + 30 + 0.7 * n, step(n, dt_ms=700)) for n in range(1, 41)]
    lines += [(shift + 63, validation(40))]
    facts = {
        "run": "d12",
        "argv": ["python", "train.py", "--recompute"],
        "simulated": simulated,
        "started": clock(shift),
        "ended": clock(shift + 70),
        "gpus": [{"gpu": gpu, "uuid": gpu, "name": "NVIDIA H100 80GB HBM3"} for gpu in "01"],
    }
    segment = create(folder, facts)
    segment.gpu.rmdir()
    columns = [TierColumn(name, unit, per_unit, gpu) for gpu in "01" for name, unit, per_unit in READINGS]
    ticks = [(0, n * SECOND // 10, power(n / 10)) for n in range(700)]
    compose(segment.gpu, [Tier("fast", 10.0, tuple(columns))], ticks)
    fill(segment, lines)
    return folder


@pytest.fixture
def recorded(tmp_path: Path, compose: Callable[..., None]) -> Path:
    return record(tmp_path / "runs" / "d12", compose, None)


@pytest.fixture
def simulated(tmp_path: Path, compose: Callable[..., None]) -> Path:
    return record(tmp_path / "runs" / "d12", compose, "2xH100")


def power(second: float) -> list[int]:
    works = 30 <= second <= 59
    return [500_000 if works else 100_000, 40_960, 520_000 if works else 100_000, 40_000]


def test_plan_like_a_recording_takes_its_watts_its_start_and_its_recipe(recorded: Path) -> None:
    found = answer("--depth", 12, "--like", recorded)
    (row,) = found["rows"]
    assert (found["machine"]["gpu"], found["machine"]["gpus"]) == ("H100", 2)
    assert row["origins"]["power_w"] == {"origin": "measured", "from": ["power of d12"]}
    assert row["ranges"]["power_w"] == pytest.approx([500, 520], rel=0.02)
    assert row["origins"]["start_s"] == {"origin": "measured", "from": ["start of d12"]}
    assert row["start_s"] == pytest.approx(30)
    assert row["dt_ms"] == pytest.approx(700)
    assert row["recipe"]["recompute"] is True
    assert row["memory_gib"] == pytest.approx(40, rel=0.01)


NOT_MEASURED = (
    "MFU, power and memory are not measured: the GPUs of d12 are simulated (2xH100), "
    "and the training did not run on them"
)


def test_plan_like_a_simulated_recording_assumes_what_its_gpus_did_not_do(simulated: Path) -> None:
    plan = answer("--depth", 12, "--like", simulated)
    (row,) = plan["rows"]
    assert NOT_MEASURED in plan["notes"]
    assert any(note.startswith("d12: SIMULATED: 2xH100") for note in plan["notes"])
    assert {row["origins"][name]["origin"] for name in ("mfu", "power_w", "memory_gib")} == {"assumed"}
    assert row["origins"]["start_s"] == {"origin": "measured", "from": ["start of d12"]}


def test_check_of_a_simulated_recording_says_why_it_has_no_mfu(simulated: Path) -> None:
    check = answer("--check", simulated)
    figures = {line["name"]: line["happened"] for line in check["figures"]}
    assert [figures[name] for name in ("mfu", "power_w", "energy_kwh")] == [None, None, None]
    assert figures["dt_ms"] == pytest.approx(700)
    assert NOT_MEASURED in check["notes"]


def test_named_gpus_of_a_simulated_recording_give_its_mfu(simulated: Path) -> None:
    check = answer("--check", simulated, "--on", "2xH100")
    figures = {line["name"]: line["happened"] for line in check["figures"]}
    assert figures["mfu"] == pytest.approx(100 * 1_038_090_240 * 524_288 / 0.7 / (2 * 989e12))
    assert figures["power_w"] is None


def test_check_of_a_recording_knows_what_was_used(recorded: Path) -> None:
    figures = {line["name"]: line["happened"] for line in answer("--check", recorded)["figures"]}
    assert figures["power_w"] == pytest.approx(510, rel=0.02)
    assert figures["energy_kwh"] == pytest.approx(2 * figures["power_w"] * figures["train_hours"] / 1000)
    assert figures["memory_gib"] == pytest.approx(40)
    assert figures["start_s"] == pytest.approx(30)
    assert figures["eval_hours"] == pytest.approx(5 / 3600)


def test_rows_are_written_as_csv(tmp_path: Path) -> None:
    words = ("--depth", "16,24", "--on", "2xH100", "--csv", "--out", tmp_path)
    result = run(*words)
    path = tmp_path / "gputel-plan.csv"
    assert result.stderr == f"wrote {path}\n"
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["parameters"] for row in rows] == ["335544320", "880803840"]
    assert float(rows[0]["hours_low"]) < float(rows[0]["hours"]) < float(rows[0]["hours_high"])
    assert run(*words).returncode == 0


def test_file_of_another_program_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("a,b\n1,2\n")
    words = ("--depth", 16, "--on", "H100", "--csv", "--out", path)
    result = run(*words)
    assert result.returncode == 1
    assert result.stderr == (
        f"error: {path}: was not written by gputel; choose another path, or --force it\n"
    )
    assert path.read_text() == "a,b\n1,2\n"
    assert run(*words, "--force").returncode == 0
    assert path.read_text().startswith("name,fits,depth")


def test_page_shows_the_same_tables_offline(tmp_path: Path) -> None:
    words = ("--depth", "16,64", "--on", "2xH100", "--device-batch-size", 8, "--html", "--out", tmp_path)
    assert run(*words).returncode == 0
    page = (tmp_path / "gputel-plan.html").read_text()
    for text in ("What it takes", "335,544,320", "Where the figures come from", "d64 does not fit"):
        assert text in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert run(*words).returncode == 0


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            "",
            "gputel plan: no size or limit was given; say --depth 16,20,24, --params 1.5B or --layers; "
            "or --budget or --hours for the largest that fits",
        ),
        ("--depth 16", "gputel plan: the GPUs are not named; say --on 2xH100"),
        (
            "--depth deep --on H100",
            "gputel plan: Invalid value for '--depth': 'deep' is not a number like 350M, 1.5B or 400,000; "
            "see 'gputel plan --help'",
        ),
        (
            "--depth 16 --on 2xH100 --device-batch-size 7",
            "--device-batch-size 7: 7 x 2048 x 2 GPUs = 28,672 do not divide 524,288 tokens per step; "
            "take another batch, or --total-batch-size 516096",
        ),
        (
            "--depth 16 --on 8xH100 --nodes 4",
            "--nodes 4: communication time depends on the link between the nodes; "
            "give it, such as --link 10Gbit",
        ),
        (
            "--depth 16 --on 8xH100 --nodes 4 --link fast",
            "gputel plan: Invalid value for '--link': 'fast' is not a link like 10Gbit or 1.25GB/s; "
            "see 'gputel plan --help'",
        ),
        ("--budget 10 --on 8xH100", "--budget 10: needs the price of a GPU hour; add --price"),
        ("--layers 12 --on H100", "--layers: needs the width too; say --dim 768"),
        (
            "--depth 16 --params 1B --on H100",
            "--depth --params: are alternatives; give one of them",
        ),
        ("--depth 16 --dim 768 --on H100", "--dim: goes with --layers; say --layers 12 too"),
        (
            "--layers 12 --dim 768 --heads 7 --on H100",
            "--heads 7: a dim of 768 does not split into 7 heads of an even size; try --heads 6",
        ),
        ("--check x.log --csv", "--check: is printed, or given as JSON; leave out --csv and --html"),
    ],
)
def test_impossible_question_gets_one_line(words: str, line: str) -> None:
    result = run(*words.split())
    assert result.stderr == f"error: {line}\n"
    assert (result.returncode, result.stdout) == (2, "")


def test_run_to_plan_by_that_holds_nothing_is_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.touch()
    for option in ("--like", "--check"):
        result = run("--depth", 16, "--on", "H100", option, empty)
        assert result.returncode == 3
        assert result.stderr == (
            f"error: {empty}: nothing in it could be parsed; see 'gputel parse {empty}'\n"
        )


def test_guess_about_several_sizes_is_named_once() -> None:
    said = run("--params", "1.5B,900M", "--on", "8xA100").stdout
    assert said.count("memory and MFU are those of") == 1
    assert (
        "\nno shape is given: memory and MFU are those of 29 layers, 1,856 wide (1.5B); "
        "24 layers, 1,536 wide (900M)\n"
    ) in said


def test_refused_rate_is_an_error_and_a_note_of_the_plan() -> None:
    result = run(*STORY_4, "--target-tok-s", "400000")
    assert "144% MFU" in result.stderr
    assert "144% MFU" not in result.stdout
    assert "1.5B: impossible: 400,000 tok/s is above the peak of these GPUs, 277,333 tok/s" in result.stdout


def test_unknown_gpu_gets_the_nearest_or_the_list() -> None:
    error = run("--depth", 16, "--on", "2xH900")
    assert error.returncode == 2
    assert error.stderr == "error: --on 2xH900: no such GPU in the table; did you mean 2xH100?\n"
    error = run("--depth", 16, "--on", "2xTPU")
    assert error.stderr.startswith("error: --on 2xTPU: no such GPU in the table; it has H100, H100-PCIe, ")
    for name in ("H200", "A100", "V100", "RTX-4090"):
        assert f" {name}," in error.stderr
    assert error.stderr.count("\n") == 1


def test_budget_that_buys_nothing_names_the_nearest() -> None:
    result = run("--budget", 0.1, "--price", 4, "--on", "8xH100")
    assert result.returncode == 1
    assert result.stderr.startswith("error: --budget 0.1: nothing fits; the nearest is d1, which takes ")
    assert result.stdout == ""


def test_check_begins_with_the_doubts_of_the_run(tmp_path: Path) -> None:
    """A throughput in thousands: the plan is checked, and the doubt says what was read how."""
    steps = [f"step {n:5d} | loss: {3 - n / 100:.2f} | dt: 1217.00ms | tok/sec: 430.80\n" for n in range(30)]
    banner = "GPU: NVIDIA H100 80GB HBM3\nworld_size: 1\ndesired batch size (number of tokens): 524288\n"
    (tmp_path / "a.log").write_text(banner + "".join(steps))
    words = ["plan", "--params", "124M", "--on", "1xH100", "--check", str(tmp_path / "a.log")]
    printed = CliRunner().invoke(group, words)
    assert printed.output.startswith("doubt: tok/s as printed is 1/1,000 of tokens / dt")
    answer = json.loads(CliRunner().invoke(group, [*words, "--json"]).stdout)
    assert [doubt["kind"] for doubt in answer["doubts"]] == ["tok-per-sec"]
