"""The fit of a floor and a falling power."""

from __future__ import annotations

import numpy as np
import pytest

from gputel.analysis.compare import power_law


def test_exact_law_is_recovered() -> None:
    x = np.array([[1.0], [4], [16], [64], [256]])
    law = power_law.fit(x, 2 + 3 * x[:, 0] ** -0.5)
    assert (law.floor.value, law.factors[0].value, law.exponents[0].value) == pytest.approx(
        (2, 3, 0.5), rel=1e-3
    )
    assert law.predict(np.array([1024.0])).value == pytest.approx(2 + 3 / 32, rel=1e-3)


def test_noise_widens_the_interval() -> None:
    x = np.geomspace(1, 256, 8)[:, None]
    noise = np.random.default_rng(0).normal(0, 0.02, 8)
    floor = power_law.fit(x, 2 + 3 * x[:, 0] ** -0.5 + noise).floor
    assert floor.low < floor.value < floor.high


def test_power_law_refuses_as_many_points_as_parameters() -> None:
    with pytest.raises(ValueError, match="3 points"):
        power_law.fit(np.array([[1.0], [2], [3]]), np.array([3.0, 2, 1]))
