"""Printed names and units become columns."""

from __future__ import annotations

import pytest

from gputel.analysis.logs import names
from gputel.analysis.logs.names import Vocabulary
from gputel.analysis.logs.values import read


@pytest.mark.parametrize(
    ("key", "unit", "column"),
    [
        ("lm loss", "", "loss"),
        ("loss/train/total", "", "loss"),
        ("tot_loss", "", "loss"),
        ("tot_loss()", "", "loss_avg"),
        ("epoch loss", "", "loss_avg"),
        ("Learning-Rate", "", "lr"),
        ("eval_loss", "", "val_loss"),
        ("loss()", "", "loss_avg"),
        ("acc()", "%", "acc_pct"),
        ("router entropy", "", "router_entropy"),
        ("cache", "MiB", "cache_mib"),
        ("elapsed time per iteration (ms)", "", "dt_ms"),
        ("timestamp", "", "time"),
        ("index", "", "index_"),
    ],
)
def test_printed_name_gives_its_column(key: str, unit: str, column: str) -> None:
    field = Vocabulary().field(key.encode(), unit.encode())
    assert field is not None
    assert field.column == column


@pytest.mark.parametrize(
    ("key", "unit", "text", "value"),
    [
        ("dt", "s", b"0.4066", 406.6),
        ("step_time_s", "", b"2", 2000.0),
        ("tok/sec", "K", b"11.5", 11500.0),
        ("tokens", "B", b"85.8", 85.8e9),
        ("eta", "h", b"2", 120.0),
        ("elapsed", "clock", b"1:30:00", 90.0),
    ],
)
def test_value_is_brought_to_the_unit_of_its_column(key: str, unit: str, text: bytes, value: float) -> None:
    field = Vocabulary().field(key.encode(), unit.encode())
    assert field is not None
    assert read(text, field) == value


def test_own_names_of_a_format_take_precedence() -> None:
    vocabulary = Vocabulary({"time": "dt_ms s", "eta": ""}, {"mfu": ["-100.00"]})
    time, mfu = vocabulary.field(b"time", b""), vocabulary.field(b"mfu", b"")
    assert time is not None
    assert mfu is not None
    assert (time.column, read(b"2", time)) == ("dt_ms", 2000.0)
    assert vocabulary.field(b"eta", b"") is None
    assert read(b"-100.00", mfu) is None


def test_time_of_day_is_no_value() -> None:
    assert Vocabulary().field(b"at", b"clock") is None


@pytest.mark.parametrize(
    ("column", "evaluates"),
    [
        ("val_acc", True),
        ("acc_test", True),
        ("Acc_dev_pct", True),
        ("std_dev", False),
        ("target_val_acc", True),
        ("gen_eval_loss", True),
        ("with_val_loss", False),
        ("clean_test_error_pct", True),
        ("best_val_acc", False),
        ("num_val_samples", False),
        ("core_metric", True),
        ("lr", False),
        ("val_clipfrac_avg", False),  # of a value function
        ("val_ratio", False),
        ("val_rate", True),
    ],
)
def test_evaluations_are_known_by_their_set(column: str, evaluates: bool) -> None:
    assert names.is_evaluation(column) is evaluates


def test_total_beside_parts_is_the_title_of_the_loss() -> None:
    assert [names.title(word) for word in ("total", "box loss", "")] == ["loss", "box_loss", "value"]


def test_span_without_a_unit_is_no_time() -> None:
    """It may be of seconds, minutes or hours, of an epoch or of the whole run."""
    for name in (b"total_time", b"total time", b"eta", b"time left"):
        field = Vocabulary().field(name, b"")
        assert field is not None
        assert (field.column, field.unit) == (name.decode().replace(" ", "_"), None)
    for name, unit in ((b"total time", b"s"), (b"total_time_min", b""), (b"total time (h)", b"")):
        field = Vocabulary().field(name, unit)
        assert field is not None
        assert field.column == "total_time_min"


@pytest.mark.parametrize(("unit", "column"), [("ms", "dt_ms"), ("seconds", "time_s"), ("", "time")])
def test_time_with_a_unit_is_no_time_of_day(unit: str, column: str) -> None:
    field = Vocabulary().field(b"time", unit.encode())
    assert field is not None
    assert field.column == column


@pytest.mark.parametrize(("name", "column"), [("Val", "Val_pct"), ("loss", "loss_pct"), ("acc", "acc_pct")])
def test_share_behind_a_loss_that_a_set_names_is_a_score(name: str, column: str) -> None:
    field = Vocabulary({"val": "val_loss"}).field(f"{name}()".encode(), b"%")
    assert field is not None
    assert field.column == column
