"""Tags of stores are called what the same figures in a log are called."""

import pytest

from gputel.analysis.stores.tags import meanings


def columns(*tags: str) -> dict[str, str]:
    return {tag: meaning.column for tag, meaning in meanings(dict.fromkeys(tags, 10)).items()}


@pytest.mark.parametrize(
    ("tag", "column", "is_evaluation"),
    [
        ("train/loss", "loss", False),
        ("Loss/train", "loss", False),
        ("loss", "loss", False),
        ("loss/train/total", "loss", False),
        ("eval/loss", "val_loss", True),
        ("Loss/val", "val_loss", True),
        ("validation/epoch_loss", "val_loss", True),
        ("eval_loss", "val_loss", True),
        ("eval/acc", "val_acc", True),
        ("metrics/test/f1", "val_metrics_f1", True),
        ("x/lr0", "lr", False),
        ("optim/learning_rate", "lr", False),
        ("lr/pg0", "lr", False),
        ("lr-AdamW/pg1", "lr", False),
        ("train/grad_norm", "grad_norm", False),
        ("perf/tokens_per_sec", "tok_per_sec", False),
        ("train/box_loss", "box_loss", False),
        ("rollout/ep_rew_mean", "rollout_ep_rew_mean", False),
        ("time", "time_", False),
        ("", "value_", False),
    ],
)
def test_tag_becomes_the_column_of_logs(tag: str, column: str, is_evaluation: bool) -> None:
    meaning = meanings({tag: 10})[tag]
    assert (meaning.column, meaning.is_evaluation) == (column, is_evaluation)
    assert meaning.field.source == tag


def test_average_over_an_epoch_is_no_loss_beside_the_loss_of_steps() -> None:
    assert columns("train_loss_step", "train_loss_epoch") == {
        "train_loss_step": "loss",
        "train_loss_epoch": "loss_avg",
    }


def test_average_is_the_loss_where_it_is_the_only_one() -> None:
    assert columns("train/epoch_loss", "train/epoch_accuracy")["train/epoch_loss"] == "loss"


def test_cross_entropy_is_the_loss_where_no_other_is() -> None:
    assert columns("train/ce_loss", "train/z_loss")["train/ce_loss"] == "loss"
    assert columns("train/ce_loss", "train/loss")["train/ce_loss"] == "ce_loss"


def test_loss_of_a_part_is_the_loss_where_it_is_the_only_one() -> None:
    assert columns("data/loss/train", "data/loss/val", "lr") == {
        "data/loss/train": "loss",
        "data/loss/val": "val_loss",
        "lr": "lr",
    }
    assert columns("actor/loss", "critic/loss")["actor/loss"] == "actor_loss"
    assert columns("loss", "train/aux/loss")["train/aux/loss"] == "aux_loss"


def test_of_two_tags_for_one_column_the_one_with_more_values_has_it() -> None:
    found = meanings({"loss": 3, "train/loss": 100})
    assert found["train/loss"].column == "loss"
    assert found["loss"].column not in ("loss", "")


def test_step_times_and_rates_are_scaled_as_in_logs() -> None:
    assert meanings({"perf/step_time": 5})["perf/step_time"].field.shift == 3
    assert meanings({"perf/step_time_ms": 5})["perf/step_time_ms"].field.shift == 0
