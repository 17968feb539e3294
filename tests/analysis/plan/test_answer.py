"""The JSON and CSV of a plan."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

from gputel.analysis import plan as planning
from gputel.analysis.plan import answer, inputs
from gputel.analysis.plan.question import Question

Ask = Callable[..., Question]


def test_answer_is_json_with_the_range_and_origin_of_every_figure(ask: Ask) -> None:
    plan = planning.of_sizes(ask("2xH100", device_batch=8, price=4), [inputs.of_depth(16)], 100_000)
    answered = json.loads(json.dumps(answer.answer(plan), allow_nan=False))
    (row,) = answered["rows"]
    figures = plan.rows[0].figures
    assert answered["machine"]["peak_flops"] == 2 * 989e12
    assert row["parameters"] == 335_544_320
    assert set(row["origins"]) == set(figures)
    assert set(row["ranges"]) == {name for name, figure in figures.items() if figure.is_range}
    assert row["ranges"]["hours"][0] < row["hours"] < row["ranges"]["hours"][1]
    assert (answered["targets"][0]["name"], answered["targets"][0]["possible"]) == ("d16", True)


def test_csv_has_two_more_columns_for_each_range(ask: Ask) -> None:
    plan = planning.of_sizes(ask("2xH100", device_batch=8), [inputs.of_depth(depth) for depth in (16, 24)])
    rows = list(csv.DictReader(io.StringIO(answer.csv_text(plan))))
    assert [row["name"] for row in rows] == ["d16", "d24"]
    assert float(rows[0]["hours_low"]) < float(rows[0]["hours"]) < float(rows[0]["hours_high"])
    assert "parameters_low" not in rows[0]


def test_exact_keeps_integers_and_rounds_other_values() -> None:
    assert [answer.exact(value) for value in (12_885_164_032, 1 / 3)] == [12_885_164_032, 0.333333]
