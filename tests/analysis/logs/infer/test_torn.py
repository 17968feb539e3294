"""Records that break off are no kind of their own, and those in another unit are."""

from __future__ import annotations

from collections.abc import Callable

from gputel.analysis.logs.infer import shapes
from gputel.analysis.logs.infer.torn import is_torn
from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]


def test_record_that_breaks_off_is_torn() -> None:
    rows = [
        line.encode()
        for line in [*(f"step {i} loss {9 / i:.3f} lr 3e-4" for i in range(1, 61)), "step 61 loss 0.1 l"]
    ]
    whole, torn = shapes.line_shapes(rows, rows)
    assert is_torn(torn, whole)
    assert not is_torn(whole, torn)


def test_last_record_in_another_unit_is_whole(read: Read) -> None:
    """CatBoost has 0us left at the end, once."""
    row = "{}:\tlearn: {:.7f}\ttotal: {:.3g}s\tremaining: {:.3g}{}\n"
    rows = [row.format(at * 10, 5 / (at + 1), 1 + at / 9, 9 - at / 9, "s") for at in range(80)]
    assert read("".join(rows) + row.format(999, 0.0625, 9.9, 0, "us")).records["step"][-1] == 999


def test_last_record_is_whole_beside_times_of_several_units(read: Read) -> None:
    row = "{}:\tlearn: {:.4f}\ttest: {:.4f}\ttotal: 2m 3s\tremaining: {}\n"
    rows = [row.format(at, 5 / (at + 1), 6 / (at + 1), "1m 2s") for at in range(80)]
    rows += [row.format(at, 5 / (at + 1), 6 / (at + 1), "1m") for at in range(80, 85)]
    assert read("".join(rows) + row.format(85, 0.0625, 0.125, "0us")).records["step"][-1] == 85


def test_record_with_text_at_the_end_of_its_last_number_is_rejected(read: Read) -> None:
    """So it is in a log of rewards alone; `361s` may be another figure."""
    row = "Episode {0}/80 | Reward: {1:.1f} | Epsilon: {2:.4f} | Steps: {0}3"
    rows = [row.format(at, at / 3, 1 / at) for at in range(1, 81)]
    rows[40] += "s"
    log = read("\n".join(rows) + "\n")
    assert (log.records.height, [reject.line for reject in log.rejects]) == (79, [41])


def test_line_of_another_program_may_begin_behind_the_last_number(read: Read) -> None:
    rows = [f"[ {at} Epoch:[0/2]] d_loss: {9 / at:.4f}, g_loss: {7 / at:.4f}" for at in range(1, 20)]
    rows[9] += "WARNING:root:From saver.py: remove_checkpoint is deprecated"
    log = read("\n".join(rows) + "\n")
    assert log.records["g_loss"].to_list() == [round(7 / at, 4) for at in range(1, 20)]
