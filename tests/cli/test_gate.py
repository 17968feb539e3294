"""`gputel gate`: what a CI job sees of it."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gputel.cli import main


def gate(*args: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["gate", *map(str, args)])
    return int(ended.value.code or 0)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, pace in (("good", 10_000), ("same", 10_010), ("slow", 9_000)):
        lines = [f"step {n} | loss: {3 - n / 1000:.4f} | tok/sec: {pace + n % 7}\n" for n in range(100)]
        (tmp_path / f"{name}.log").write_text("".join(lines))
    (tmp_path / "short.log").write_text("step 0 | loss: 3.0 | tok/sec: 9000\n")
    return tmp_path


def test_run_within_its_limits_ends_with_0(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        gate("same.log", "--baseline", "good.log", "--max-regress", "tok_per_sec=3%", "--target", "loss=2.95")
        == 0
    )
    said = capsys.readouterr().out
    assert said.startswith("same.log against good.log: 2 passed\n")
    assert "tok_per_sec: passed, medians" in said
    assert "loss: passed, best at step 99" in said


def test_table_of_verdicts_fits_80_columns_with_the_verdict_beside_the_metric(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gate("slow.log", "--baseline", "good.log", "--max-regress", "tok_per_sec=3%")
    said = capsys.readouterr()
    _, _, head, _, row, *_ = said.out.splitlines()
    assert head.split()[:2] == ["metric", "verdict"]
    assert row.split()[:5] == ["tok_per_sec", "failed", "3.00%", "10,003", "9,003.0"]
    assert len(row.rstrip()) <= 80
    assert said.err == "next: gputel compare good.log slow.log\n"


def test_regression_ends_with_4_and_too_little_data_with_5(runs: Path) -> None:
    assert gate("slow.log", "--baseline", "good.log", "--max-regress", "tok_per_sec=3%") == 4
    assert gate("short.log", "--baseline", "good.log", "--max-regress", "tok_per_sec=3%") == 5


def test_steps_of_the_warm_up_do_not_count(runs: Path) -> None:
    """Fifty slow steps at the start fail the gate, unless they are warm-up."""
    lines = [f"step {n} | loss: 3.0 | tok/sec: {5_000 if n < 50 else 10_000 + n % 7}\n" for n in range(90)]
    (runs / "warms-up.log").write_text("".join(lines))
    asked = ("warms-up.log", "--baseline", "good.log", "--max-regress", "tok_per_sec=3%")
    assert gate(*asked, "--warmup", 50) == 0
    assert gate(*asked) != 0


def test_json_holds_every_verdict(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gate("slow.log", "--baseline", "good.log", "--max-regress", "tok_per_sec=3%", "--json")
    answer = json.loads(capsys.readouterr().out)
    (check,) = answer["checks"]
    assert answer["exit_code"] == 4
    assert (check["verdict"], check["limit"], round(check["change"], 2)) == ("failed", 0.03, 0.1)
    assert check["low"] <= check["change"] <= check["high"]


def test_junit_has_a_failure_and_a_skipped_case(runs: Path) -> None:
    limits = ["--max-regress", "tok_per_sec=3%", "--max-regress", "mfu=3%"]
    gate("slow.log", "--baseline", "good.log", *limits, "--junit", "gate.xml")
    suite = ElementTree.parse(runs / "gate.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "1")
    assert [[child.tag for child in case] for case in suite] == [["failure"], ["skipped"]]


def test_junit_list_is_overwritten_and_no_other_file(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["same.log", "--target", "loss=2.95", "--junit", "gate.xml"]
    assert gate(*words) == gate(*words) == 0
    (runs / "gate.xml").write_text("<mine/>")
    capsys.readouterr()
    assert gate(*words) == 1
    assert capsys.readouterr().err == (
        "error: gate.xml: was not written by gputel; choose another path, or --force it\n"
    )
    assert gate(*words, "--force") == 0


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["same.log"], "say what to judge: --max-regress METRIC=3% or --target METRIC=VALUE"),
        (["same.log", "--max-regress", "loss=1%"], "--max-regress needs a --baseline"),
        (["same.log", "--target", "loss"], "Invalid value for '--target': 'loss' is not a target like loss=2.9"),
        (["same.log", "--max-regress", "loss=much"], "'loss=much' is not a limit like loss=3%"),
        (["same.log", "--target", "kl=1"], "add --lower kl or --higher kl"),
    ],
)  # fmt: skip
def test_wrong_question_is_2_and_one_line(
    runs: Path, words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate(*words) == 2
    said = capsys.readouterr().err
    assert line in said
    assert said.count("\n") == 1


def test_lower_says_which_way_of_an_unknown_metric_is_better(runs: Path) -> None:
    lines = [f"step {n} | loss: 3.0 | kl: {2 - n / 100:.4f}\n" for n in range(100)]
    (runs / "kl.log").write_text("".join(lines))
    assert gate("kl.log", "--target", "kl=0.5") == 2
    assert gate("kl.log", "--target", "kl=1.1", "--lower", "kl") == 0
    assert gate("kl.log", "--target", "kl=2.5", "--higher", "kl") == 4


def test_log_with_nothing_in_it_is_3(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs / "empty.log").write_text("hello\n")
    assert gate("empty.log", "--target", "loss=2") == 3
    assert capsys.readouterr().err == (
        "error: empty.log: nothing in it could be parsed; see 'gputel parse empty.log'\n"
    )
