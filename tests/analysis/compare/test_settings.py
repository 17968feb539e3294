"""Settings that differ between runs."""

from __future__ import annotations

from pathlib import Path

from gputel.analysis.compare import compare, settings
from gputel.analysis.compare.answer import comparison_json
from gputel.analysis.runs import read_run


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


def test_rate_that_is_not_as_printed_names_its_factor(tmp_path: Path) -> None:
    """torchtitan prints the tokens per second of one GPU."""
    lines = [
        f"step: {n:2}  loss: {7 - n / 40:.4f}  memory: 60.10GiB(75.46%)  tps: 32,768\n" for n in range(60)
    ]
    for name, gpus in (("one", 1), ("eight", 8)):
        (tmp_path / f"{name}.log").write_text("".join([f"world_size: {gpus}\n", *lines]))
    answered = comparison_json(compare([read_run(tmp_path / f"{name}.log") for name in ("one", "eight")]))
    assert [note for note in answered["notes"] if note.startswith("tok/s")] == [
        "tok/s of one is the mean of the printed values",
        "tok/s of eight is the mean of the printed values, times 8",
    ]


def test_figure_that_a_script_spells_otherwise_is_listed_once() -> None:
    stated = {
        "a": {"depth": 16, "num_layers": 16, "heads": 8, "num_heads": 8, "num_kv_heads": 8},
        "b": {"depth": 24, "num_layers": 24, "heads": 12, "num_heads": 12, "num_kv_heads": 4},
    }
    assert settings.differing(stated)["setting"].unique(maintain_order=True).to_list() == [
        "depth", "heads", "num_kv_heads",
    ]  # fmt: skip


def test_spelling_with_other_values_is_another_setting() -> None:
    stated = {"a": {"depth": 16, "num_layers": 2}, "b": {"depth": 24, "num_layers": 4}}
    assert settings.differing(stated)["setting"].unique(maintain_order=True).to_list() == [
        "depth",
        "num_layers",
    ]
