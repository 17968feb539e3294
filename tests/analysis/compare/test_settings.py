"""Settings that differ between runs."""

from __future__ import annotations

from gputel.analysis.compare import settings


def test_only_settings_that_differ_are_listed() -> None:
    frame = settings.differing({"a": {"lr": 0.1, "depth": 12}, "b": {"lr": 0.2, "depth": 12}})
    assert frame.rows() == [("lr", "a", "0.1"), ("lr", "b", "0.2")]


def test_setting_that_one_run_lacks_is_null_there() -> None:
    frame = settings.differing({"a": {"lr": 0.1}, "b": {"lr": 0.2}, "c": {}})
    assert frame["value"].to_list() == ["0.1", "0.2", None]


def test_whole_numbers_lose_their_point() -> None:
    assert repr(settings.whole(24.0)) == "24"
    assert settings.whole(0.5) == 0.5


def test_value_is_shown_on_one_line() -> None:
    assert settings.shown("python -c '\n  print(1)'") == "python -c ' print(1)'"
    assert settings.shown(65536) == "65,536"
