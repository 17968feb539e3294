"""The table of rules, with a project's thresholds and the chosen presets."""

from __future__ import annotations

import pytest

from gputel.analysis.alarms import rules
from gputel.analysis.alarms.observations import Record
from gputel.telemetry.errors import GputelError
from tests.analysis.alarms.scenes import alarms_of


def test_preset_rules_are_not_among_the_default() -> None:
    low = [Record(n, {"mfu": 9.0}) for n in range(100)]
    assert alarms_of(low) == []
    assert alarms_of(low, "rented") == [("low_mfu", "on", 49)]


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"nan": {"records": 3}}, "gputel.toml: alarm 'nan' has no 'records'; it has metrics, recovery, off"),
        ({"naan": {}}, "gputel.toml: no such alarm: 'naan'; the alarms are: nan, spike"),
    ],
)
def test_unknown_setting_is_named_with_the_known_ones(
    settings: dict[str, dict[str, object]], line: str
) -> None:
    with pytest.raises(GputelError, match="^" + line.replace(".", "\\.")) as caught:
        rules.load(settings=settings)
    assert caught.value.exit_code == 2


def test_rule_can_be_disabled() -> None:
    assert "spike" not in [rule.name for rule in rules.load(settings={"spike": {"off": True}})]


def test_unknown_preset_is_named_with_the_known_ones() -> None:
    with pytest.raises(GputelError, match=r"^--preset cheap: no such preset; the presets are: rented$"):
        rules.load(["cheap"])


def test_limits_that_the_table_leaves_unset_can_be_set() -> None:
    (budget,) = (rule for rule in rules.load(settings={"budget": {"hours": 31}}) if rule.name == "budget")
    assert dict(budget.thresholds) == {"hours": 31}


@pytest.mark.parametrize(
    ("rule", "key", "value"),
    [
        ("spike", "deviations", "8"),
        ("spike", "deviations", True),
        ("spike", "metric", 5),
        ("nan", "metrics", "loss"),
        ("nan", "off", 1),
        ("budget", "hours", "8h"),
        ("traceback", "unless", []),
    ],
)
def test_threshold_of_a_wrong_type_is_named(rule: str, key: str, value: object) -> None:
    line = f"gputel.toml: alarm '{rule}': '{key}' has a value of a wrong type"
    with pytest.raises(GputelError, match=line):
        rules.load(settings={rule: {key: value}})
