"""Doubts as sentences and as JSON."""

from gputel.analysis.doubts import Doubt

DOUBT = Doubt(
    "run",
    "step-time",
    "dt is 1,217 ms, and the stamps give 2,434 ms a step",
    "the log prints dt for half a step",
    {"dt_ms": 1217.0, "stamps_ms": 2434.0},
)


def test_text_gives_both_figures_and_the_likeliest_reason() -> None:
    assert DOUBT.text == f"{DOUBT.evidence}: {DOUBT.likely}"


def test_json_has_kind_text_figures_and_line() -> None:
    assert DOUBT.as_json() == {
        "kind": "step-time",
        "about": "run",
        "text": DOUBT.text,
        "figures": {"dt_ms": 1217.0, "stamps_ms": 2434.0},
        "line": None,
    }
