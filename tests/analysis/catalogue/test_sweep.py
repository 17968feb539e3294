"""Settings that matter are told from those that do not, and those that cannot be told apart are named together."""

from __future__ import annotations

import math
import random

from gputel.analysis.catalogue.sweep import Importance, importance


def planted(runs: int, seed: int) -> tuple[list[float | None], dict[str, list[float | str | None]]]:
    """A sweep in which the learning rate matters most, the depth less, and the width moves with the depth."""
    draw = random.Random(seed)
    rates = [10 ** draw.uniform(-4, -2) for _ in range(runs)]
    depths = [draw.choice([8, 12, 16, 20]) for _ in range(runs)]
    losses = [
        3 + (math.log10(rate) + 3) ** 2 - 0.01 * depth + draw.gauss(0, 0.05)
        for rate, depth in zip(rates, depths, strict=True)
    ]
    settings: dict[str, list[float | str | None]] = {
        "config.lr": list(rates),
        "config.depth": list(depths),
        "config.width": [64 * depth for depth in depths],
        "config.dropout": [draw.choice([0.0, 0.1]) for _ in range(runs)],
        "config.optimizer": [draw.choice(["adamw", "muon"]) for _ in range(runs)],
        "config.note": [f"try {n}" for n in range(runs)],
        "config.vocab": [50304.0] * runs,
    }
    return list(losses), settings


def by_name(found: list[Importance]) -> dict[str, Importance]:
    return {each.setting: each for each in found}


def test_planted_learning_rate_is_first_and_clear() -> None:
    sweeps = [importance(*planted(32, seed)) for seed in range(10)]
    assert [found[0].setting for found in sweeps] == ["config.lr"] * 10
    assert all(found[0].is_clear for found in sweeps)


def test_settings_without_effect_are_seldom_clear() -> None:
    sweeps = [by_name(importance(*planted(32, seed))) for seed in range(10)]
    clear = sum(each[name].is_clear for each in sweeps for name in ("config.dropout", "config.optimizer"))
    assert clear <= 1


def test_settings_that_move_together_are_named_together() -> None:
    found = by_name(importance(*planted(64, 1)))
    assert found["config.depth"].together == ("config.width",)
    assert found["config.width"].together == ("config.depth",)
    assert found["config.lr"].together == ()


def test_names_of_runs_and_settings_with_one_value_are_left_out() -> None:
    found = by_name(importance(*planted(32, 1)))
    assert not {"config.note", "config.vocab"} & set(found)


def test_fewer_than_16_runs_with_the_figure_say_nothing() -> None:
    losses, settings = planted(20, 1)
    assert importance([None if n < 5 else loss for n, loss in enumerate(losses)], settings) == []


def test_figure_that_is_the_same_in_all_runs_is_explained_by_nothing() -> None:
    _, settings = planted(32, 1)
    assert [each.explained for each in importance([1.0] * 32, settings)] == [0.0] * 5
