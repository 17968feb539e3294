"""Records and evaluations that are missing among others at one distance, each beside a log that lacks the lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]


def records(steps: Iterable[int], other: str = "", at: int = 70) -> str:
    return "".join(
        other if step == at and other else f"step {step} loss: {9 - step / 90:.4f}\n" for step in steps
    )


def evaluated(other: str = "", *, at: int = 6, epochs: int = 12) -> str:
    """Epochs of three records and an evaluation, in the place of one of which stands another line."""
    return "".join(
        "".join(f"step {3 * e + s} loss: {9 - e / 4 - s / 90:.4f}\n" for s in range(3))
        + (other if e == at else f"eval: step {3 * e + 2} val_loss: {9 - e / 5:.4f}\n")
        for e in range(epochs)
    )


def kinds(log: Log) -> list[str]:
    return [doubt.what for doubt in log.doubts]


def test_line_in_the_place_of_a_record_is_doubtful(read: Read) -> None:
    (doubt,) = read(records(range(0, 200, 10), "something else\n")).doubts
    assert (doubt.what, doubt.line) == ("missing-records", 9)
    assert doubt.evidence == "records are 10 steps apart, and 80 comes 20 after the one before"


@pytest.mark.parametrize(
    "log",
    [
        records(step for step in range(0, 200, 10) if step != 70),  # an excerpt
        records([*range(0, 100, 10), *range(100, 200, 20)]),  # another distance from here on
        records((*range(0, 190, 10), 195)),
        "the beginning\n" * 5 + records(range(100, 200, 10)),
    ],
)
def test_gaps_without_lines_and_other_distances_are_not(log: str, read: Read) -> None:
    assert kinds(read(log)) == []


def test_gap_between_two_epochs_is_none(read: Read) -> None:
    """The last batches of an epoch are fewer than a report takes."""
    epochs = "".join(
        f"epoch {epoch} step {step} loss: {9 - step / 900:.4f}\n"
        + "that was an epoch\n" * (step % 250 == 240)
        for epoch in range(3)
        for step in range(250 * epoch + 20, 250 * epoch + 250, 20)
    )
    assert kinds(read(epochs)) == []


def test_rejected_record_is_told_by_itself(read: Read) -> None:
    log = read(records(range(0, 200, 10), "step 70 loss: 8.2.1\n"))
    assert ([reject.line for reject in log.rejects], kinds(log)) == ([8], [])


def test_line_in_the_place_of_an_evaluation_is_doubtful(read: Read) -> None:
    log = read(evaluated("eval: none this time\n"))
    assert kinds(log) == ["missing-evaluations"]
    assert log.doubts[0].evidence == "evaluations are 3 steps apart, and 23 comes 6 after the one before"
    assert kinds(read(evaluated(at=-1))) == []
