"""The one error: a line of place, fault and hint, which survives pickling."""

import pickle

from gputel.telemetry.errors import GputelError


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
