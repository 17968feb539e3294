"""The one error: a line of place, fault and hint, which survives pickling."""

import errno
import pickle

import pytest

from gputel.telemetry.errors import GputelError, reason, unexpected


def test_error_is_one_line_of_place_fault_and_hint() -> None:
    error = GputelError(
        "runs/a/output.log:812", "loss is 'nan?', expected a number", "see 'gputel formats nanogpt'"
    )
    assert (
        str(error) == "runs/a/output.log:812: loss is 'nan?', expected a number; see 'gputel formats nanogpt'"
    )


def test_error_survives_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(GputelError("a", "b", "c", exit_code=3)))
    assert (str(error), error.exit_code) == ("a: b; c", 3)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (OSError(errno.ENOSPC, ""), "No space left on device"),
        (OSError("No space left on device (os error 28)"), "No space left on device (os error 28)"),
        (OSError(), "OSError"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_os_error_says_what_failed_even_without_text(error: OSError, words: str) -> None:
    assert reason(error) == words


LIMITS = "check `ulimit -v`, `ulimit -u`, and what the container or job may use"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (MemoryError(), f"sampler: no memory is left for it; {LIMITS}"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), f"sampler: no memory is left for it; {LIMITS}"),
        (
            RuntimeError("can't start new thread"),
            f"sampler: the system refuses to start another of its threads; {LIMITS}",
        ),
        (ValueError("x"), "sampler: ValueError: x; please report this"),
    ],
)
def test_only_a_fault_of_gputel_asks_for_a_report(error: Exception, line: str) -> None:
    assert str(unexpected("sampler", error)) == line
