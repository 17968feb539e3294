"""The loss in the status line is the training's, or none."""

import pytest

from gputel.telemetry.process.training_loss import last_loss


@pytest.mark.parametrize(
    ("line", "loss"),
    [
        ("step 00100/09999 (1.00%) | loss: 3.123456 | lrm: 1.00 | dt: 210.0ms", "3.123456"),
        ("{'loss': 2.34, 'grad_norm': 1.2, 'epoch': 0.1}", "2.34"),
        ('{"step": 3, "train_loss": 1.5e-3}', "1.5e-3"),
        ("iter 10: loss 2.3456, time 12.3ms", "2.3456"),
        ("INFO loss=4", "4"),
        ("Train Loss: 0.5 Val Loss: 0.7", "0.5"),
        ("training loss 2.5", "2.5"),
        ("loss: nan", "nan"),
        ("Epoch: [1][10/100] Loss 0.5 (0.6)", "0.5"),
        ("50%|#####     | 5/10 [00:01<00:01, loss=2.31]\r 60%|######    | 6/10", "2.31"),
        ("step 1 loss 2.0\nstep 2 val loss 1.0", "2.0"),
        ("Validation loss: 3.2", None),
        ("val_loss: 3.2", None),
        ("eval/loss: 3.2", None),
        ("aux loss 0.01", None),
        ("packet loss: 3", None),
        ("0 received, loss: 50%, time 3ms", None),
        ("loss.py:30: warning", None),
        ("loss 12abc", None),
        ("no figures", None),
    ],
)
def test_loss_is_the_trainings_or_none(line: str, loss: str | None) -> None:
    assert last_loss(line.encode() + b"\n") == loss


def test_line_that_is_not_yet_whole_is_not_read() -> None:
    """Its last digits may still be missing."""
    assert last_loss(b"loss: 3.25\nloss: 3.1") == "3.25"
