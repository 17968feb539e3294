"""What a finished parser concludes: format, status, and the logs that hold no record."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs import result
from gputel.analysis.logs.log import Log
from gputel.analysis.logs.parser import make_parser

LINE = "step {:05d}/00010 (0.00%) | loss: {:.4f} | lrm: 1.00 | dt: 500.00ms | tok/sec: 1,000 | mfu: 40.00\n"


def test_format_that_matched_most_lines_is_the_logs(read: Callable[[str], Log]) -> None:
    text = "iter 1: loss 3.5, time 10.00ms, mfu 20.00%\n" + "".join(LINE.format(i, 3.5) for i in range(2, 6))
    log = read(text)
    assert log.format == "nanochat"
    assert log.formats["nanochat"] == 4


@pytest.mark.parametrize(("last", "status"), [(9, "completed"), (8, "unknown")])
def test_last_step_of_a_printed_total_completes_a_run(
    read: Callable[[str], Log], last: int, status: str
) -> None:
    assert read("".join(LINE.format(i, 5 - i / 9) for i in range(last + 1))).status == status


def test_early_stop_is_why_a_log_ends_before_its_total(read: Callable[[str], Log]) -> None:
    stop = "Early stopping: no improvement in 3 evaluations"
    log = read("".join(LINE.format(i, 5 - i / 9) for i in range(6)) + stop + "\n")
    assert (log.status, log.cause and (log.cause.line, log.cause.text)) == ("unknown", (7, stop))


def test_live_log_that_has_not_ended_is_running() -> None:
    for live, status in ((True, "running"), (False, "unknown")):
        parser = make_parser()
        parser.feed(LINE.format(1, 3.5).encode())
        parser.finish()
        assert result.conclude(parser, "x", "x.log", live=live).status == status


def test_phases_of_one_name_are_counted_as_attempts(read: Callable[[str], Log]) -> None:
    assert read((LINE.format(0, 3.5) + LINE.format(1, 3.25)) * 3).places == [
        ("train", 1),
        ("train", 2),
        ("train", 3),
    ]


def test_binary_file_is_an_empty_log_with_its_kind() -> None:
    log = result.binary_log("Parquet", "x", "x.parquet")
    assert (log.is_empty, log.binary, log.lines, log.status, log.doubts) == (
        True,
        "Parquet",
        0,
        "unknown",
        (),
    )


@pytest.mark.parametrize(("goes_on_at", "status"), [("step 30", "completed"), ("step 20", "unknown")])
def test_run_that_goes_on_counts_from_0_if_it_begins_at_the_step_it_names(
    read: Callable[[str], Log], goes_on_at: str, status: str
) -> None:
    banner = f"Resuming training from {goes_on_at}\nStarting training from step 30 to 60\n"
    lines = [f"iter={step} loss={5 - step / 60:.4f} lr=6.0e-04\n" for step in range(30, 60)]
    assert read(banner + "".join(lines)).status == status


def test_second_training_that_stops_has_not_come_to_the_end_of_the_first(read: Callable[[str], Log]) -> None:
    lines = [
        f"Epoch {epoch}/20\n10/10 [=====] - 13s 1s/step - loss: {2 / epoch:.4f} - val_loss: 1.05\n"
        for epoch in (*range(1, 21), *range(1, 8))
    ]
    log = read("".join(lines) + "Epoch 8/20\n")
    assert log.records["attempt"].max() == 2
    assert log.status == "unknown"


def test_step_beyond_the_total_is_no_end(read: Callable[[str], Log]) -> None:
    """An iteration over all epochs beside the length of one: `60/50`."""
    line = "Epoch[{}] Iteration[{}/50] Loss: {:.2f}\n"
    log = read("".join(line.format(step // 51 + 1, step, 20 / step) for step in range(10, 130, 10)))
    assert log.records["step"].to_list() == [*range(10, 130, 10)]
    assert (log.status, log.cause) == ("unknown", None)
