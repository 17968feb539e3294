"""The step of a checkpoint, by the line that reports it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.analysis.logs.saved_steps import has_weights, saved_path, saved_step
from gputel.analysis.runs import read_run


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("Saved checkpoint to out/step_000150.pt", 150),
        ("saved checkpoint to out/ckpt_150.pt", 150),
        ("Saving model checkpoint to out/checkpoint-150", 150),
        ("zero checkpoint saved /data/checkpoint-150/global_step150/mp_rank_00_model_states.pt", 150),
        ("saving checkpoint at iteration 150 to out", 150),
        ("saved epoch=3-step=150.ckpt", 150),
        ("checkpoint written: out/update_150.pt", 150),
        ("Preparing to save checkpoint for epoch 4 @ 150 updates", 150),
        ("Saved checkpoint checkpoint12.pt", 149),
        ("saving checkpoint to out", 149),
        ("Saved model to model_v2.pt", 149),
    ],
)
def test_step_of_a_checkpoint_is_the_one_in_its_name(text: str, step: int) -> None:
    """A number that does not fit the records around it is an epoch, or a version."""
    assert saved_step(text, 149, 1) == step


def test_step_of_a_checkpoint_may_lie_between_two_records() -> None:
    assert saved_step("saved checkpoint to out/ckpt_150.pt", 140, 10) == 150
    assert saved_step("saved checkpoint to out/ckpt_155.pt", 140, 10) == 140


def test_checkpoint_event_has_the_step_in_its_name(tmp_path: Path) -> None:
    lines = [f"step {step} | loss: 3.0" for step in range(150)]
    path = tmp_path / "run.log"
    path.write_text("\n".join([*lines, "Saved checkpoint to out/step_000150.pt", "step 150 | loss: 2.9", ""]))
    events = read_run(path).log.events
    assert events.filter(kind="checkpoint")["step"].to_list() == [150]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("Saved checkpoint to out/step_000150.pt.", "out/step_000150.pt"),
        ("2025-12-21 07:03:19 saving checkpoint to out-owt", "out-owt"),
        ("saving checkpoint at iteration 4000 to out", "out"),
        ("Model saved in 2.3s", None),
        ("Saved model to disk", None),
        ("Saving checkpoint", None),
    ],
)
def test_path_of_a_save_may_be_one_word(text: str, path: str | None) -> None:
    assert saved_path(text) == path


def test_state_of_an_optimizer_is_no_checkpoint_of_the_model() -> None:
    assert has_weights("out/model_000150.pt")
    assert not has_weights("out/optim_000150_rank0.pt")
