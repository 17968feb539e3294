"""What happens between two steps of a whole run: checkpoint, then evaluation."""

import json
import re
from pathlib import Path

import pytest

from .conftest import Left, Run, steps_of


def hellaswag(path: Path, lines: int = 6) -> Path:
    row = {"ctx": "the cat sat on", "endings": ["the mat", "xqzkw jvv"], "label": 0}
    path.write_text("".join(json.dumps(row) + "\n" for _ in range(lines)))
    return path


def test_multiple_choice_and_text_are_part_of_an_evaluation(run: Run, tmp_path: Path) -> None:
    questions = hellaswag(tmp_path / "q.jsonl")
    evaluations = ("--eval-every", "2", "--hellaswag", str(questions), "--sample-prompt", "def ")
    result = run("--steps", "4", *evaluations, "--sample-tokens", "4")
    assert len(re.findall(r"^Step 0000\d \| hellaswag_acc: [01]\.\d{6}$", result.stdout, re.M)) == 3
    assert result.stdout.count("sample at step ") == 3
    for label in ("Validation loss", "Validation bpb"):
        assert len(re.findall(rf"^Step 0000\d \| {label}: \d\.\d{{6}}$", result.stdout, re.M)) == 3


def test_bits_per_byte_of_bytes_are_the_loss_in_bits(run: Run, tmp_path: Path) -> None:
    run("--steps", "2", "--eval-every", "2")
    row = Left(tmp_path / "run").metrics("eval_end")[-1]
    assert row["val_bpb"] == pytest.approx(row["val_loss"] / 0.6931471805599453)


def test_evaluation_files_are_checked_before_the_first_step(run: Run, tmp_path: Path) -> None:
    missing = run("--steps", "4", "--hellaswag", "nowhere.jsonl", code=1)
    assert "--hellaswag nowhere.jsonl" in missing.stderr
    (tmp_path / "page.jsonl").write_text("<html>403</html>")
    page = run("--steps", "4", "--hellaswag", "page.jsonl", code=1)
    assert "page.jsonl:1: is no question of HellaSwag's form" in page.stderr
    assert not steps_of(missing) + steps_of(page)


def test_evaluation_that_fails_is_reported_and_the_training_goes_on(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> str:
        raise ValueError("the dice are loaded")

    monkeypatch.setattr("gputel.trainer.run.sampled", broken)
    result = run("--steps", "4", "--eval-every", "2", "--sample-prompt", "x")
    assert (
        "evaluation at step 2 failed: ValueError: the dice are loaded; the training goes on" in result.stdout
    )
    assert len(steps_of(result)) == 4


def test_checkpoint_comes_before_the_evaluation(run: Run, tmp_path: Path) -> None:
    run("--steps", "4", "--eval-every", "2", "--save-every", "2")
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    at_two = [row["event"] for row in rows if row.get("step") == 2 and row["event"] != "step"]
    assert at_two == ["checkpoint_start", "checkpoint_end", "eval_start", "eval_end"]
