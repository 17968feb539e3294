"""Output and exit codes of `gputel tail`, run as users run it."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputel.analysis.alarms import rules
from gputel.cli.tail import warnings_to
from gputel.telemetry.errors import DamagedFile
from tests.command import gputel
from tests.recordings import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
TAIL = [sys.executable, "-m", "gputel", "tail"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def printed(*losses: float, first: int = 0) -> str:
    return "".join(f"step {step} | loss: {loss} | dt: 9.00ms\n" for step, loss in enumerate(losses, first))


def tail(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return gputel("tail", *words, given=stdin.encode())


def test_alarm_is_a_line_between_the_records() -> None:
    answer = tail("-", stdin=printed(3.0, math.nan, math.nan))
    lines = [
        re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", "TIME ", line) for line in answer.stdout.splitlines()
    ]
    assert "TIME - alarm: NaN or infinite loss at step 1: loss is NaN" in lines
    assert answer.returncode == 0


def test_alarm_is_a_row_of_json() -> None:
    rows = [
        json.loads(line) for line in tail("-", "--json", stdin=printed(3.0, math.nan)).stdout.splitlines()
    ]
    (alarm,) = [row for row in rows if row.get("event") == "alarm"]
    del alarm["time"]
    assert alarm == {
        "kind": "event",
        "run": "-",
        "event": "alarm",
        "rule": "nan",
        "what": "NaN or infinite loss",
        "state": "on",
        "key": "",
        "text": "loss is NaN",
        "step": 1,
    }


def test_exit_on_alarm_exits_with_4_even_if_the_alarm_was_raised_before() -> None:
    Path("d16.log").write_text(printed(3.0, math.nan, math.nan))
    first, second = (tail("d16.log", "--exit-on-alarm", "--plain") for _ in range(2))
    assert (first.returncode, second.returncode) == (4, 4)
    assert ("alarm:" in first.stdout, "alarm:" in second.stdout) == (True, False)


def test_second_tail_prints_no_row_again() -> None:
    Path("d16.log").write_text(printed(3.0, math.nan, math.nan))
    first, second, fresh = (
        tail("d16.log", "--exit-on-alarm", "--plain", *words) for words in ([], [], ["--fresh"])
    )
    assert ("step 1 " in first.stdout, second.stdout, "step 1 " in fresh.stdout) == (True, "", True)


def test_damaged_positions_are_a_line_and_all_rows_are_printed() -> None:
    Path("d16.log").write_text(printed(3.0, math.nan, math.nan))
    tail("d16.log", "--exit-on-alarm", "--plain")
    (positions,) = Path("state/gputel/tail").glob("*/positions-*.json")
    positions.write_text("{")
    answer = tail("d16.log", "--exit-on-alarm", "--plain")
    assert answer.stderr.count(f"{positions.name}: not a readable positions file") == 1
    assert "step 1 " in answer.stdout


def test_state_that_cannot_be_written_costs_no_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("file").write_text("no folder")
    Path("a.log").write_text(printed(3.0, math.nan))
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("file").absolute()))
    answer = tail("a.log", "--exit-on-alarm")
    assert "loss is NaN" in answer.stdout
    assert answer.returncode == 4
    place, reason = Path("file/gputel").absolute(), "Not a directory"
    positions, alarms = answer.stderr.splitlines()
    assert positions.endswith(f"{reason}: all rows are shown, and no position is saved")
    assert alarms.startswith(f"warning: {place / 'alarms'}")
    assert alarms.endswith(f"events.jsonl: alarms are sent, and not kept ({reason})")


def test_exit_on_alarm_exits_with_0_without_an_alarm() -> None:
    assert tail("-", "--exit-on-alarm", stdin=printed(3.0, 2.9, 2.8)).returncode == 0


def test_on_alarm_command_uses_no_shell() -> None:
    name = "$(touch hit); touch hit `touch hit` {text} 'x"
    Path(f"{name}.log").write_text(printed(3.0, math.nan, math.nan))
    Path("notify.py").write_text("import json, sys; open('notice', 'w').write(json.dumps(sys.argv[1:]))")
    command = f"'{sys.executable}' notify.py {{rule}} {{run}}"
    assert tail(f"{name}.log", "--exit-on-alarm", "--on-alarm", command).returncode == 4
    assert json.loads(Path("notice").read_text()) == ["nan", name]
    assert not Path("hit").exists()


def test_bell_rings_on_standard_error_only() -> None:
    answer = tail("-", "--bell", stdin=printed(3.0, math.nan))
    assert ("\a" in answer.stderr, "\a" in answer.stdout) == (True, False)


def test_project_file_can_disable_a_rule() -> None:
    Path("gputel.toml").write_text("[alarms.nan]\noff = true\n[alarms.low_mfu]\nfloor = 20\n")
    assert "alarm:" not in tail("-", stdin=printed(3.0, math.nan)).stdout


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--budget", "100"], "gputel tail: --budget needs --price, the price of a GPU hour"),
        (["--preset", "own"], "--preset own: no such preset; the presets are: rented"),
        (["--on-alarm", "'x"], "--on-alarm: no closing quotation; close the quotes"),
        (["--webhook", "nowhere"], "--webhook: is not a web address; it starts with https://"),
        (
            ["--prometheus", "there"],
            "--prometheus there: is not [HOST]:PORT; write e.g. :9400 or 0.0.0.0:9400",
        ),
    ],
)
def test_wrong_option_fails_before_anything_is_followed(words: list[str], fault: str) -> None:
    answer = tail("-", *words, stdin=printed(3.0))
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith(f"error: {fault}")


def test_budget_and_time_limit_raise_an_alarm() -> None:
    log = "".join(
        f"step {step}/1000 | loss: 3.0 | dt: 3600000.00ms | total time: {60 * step}m\n" for step in range(9)
    )
    output = tail("-", "--price", "2", "--budget", "100", "--hours", "31", stdin=log).stdout
    assert "over the time limit or budget: projected duration 41 d 15 h, limit 1 d 07 h" in output
    assert "projected cost $1,998, budget $100.00" in output


def test_sigterm_ends_tail_with_0() -> None:
    Path("d16.log").write_text(printed(3.0, 2.9))
    with subprocess.Popen([*TAIL, "d16.log", "--plain"], stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "d16 step 0  loss 3  dt_ms 9\n"
        os.kill(following.pid, signal.SIGTERM)
        assert following.wait(PATIENCE_S) == 0


def table_rows(page: str) -> Iterator[tuple[str, str, str]]:
    for name, what, thresholds in re.findall(r"^\| `(\w+)` \| (.+?) \| (.*) \|$", page, re.MULTILINE):
        yield name, what, thresholds.replace("\\|", "|")


def test_docs_list_every_rule_with_its_thresholds() -> None:
    page = (ROOT / "docs" / "tail.md").read_text().split("## Alarms")[1].split("## Prometheus")[0]
    assert [(name, what) for name, what, _ in table_rows(page)] == [
        (rule.name, rule.what) for rule in rules.load(rules.presets())
    ]
    for (_, _, listed), rule in zip(table_rows(page), rules.load(rules.presets()), strict=True):
        for name, threshold in rule.thresholds.items():
            shown = ", ".join(threshold) if isinstance(threshold, list) else str(threshold)
            assert f"`{name}` {shown}".lower() in listed.lower()


@pytest.mark.filterwarnings("always")
def test_warning_of_a_damaged_file_goes_to_the_view_and_not_over_it(
    capfd: pytest.CaptureFixture[str],
) -> None:
    lines: list[str] = []
    with warnings_to(lines.append):
        warnings.warn(DamagedFile(Path("a.gtb"), "torn"), stacklevel=1)
    assert [line for line in lines if "a.gtb" in line]
    assert capfd.readouterr().err == ""
