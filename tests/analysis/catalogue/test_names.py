"""Names in a condition are facts, settings and metrics; a setting beside a number is a number."""

import sqlite3

import pytest

from gputel.analysis.catalogue.names import KnownNames, condition, expression
from gputel.telemetry.errors import GputelError


@pytest.fixture
def names() -> KnownNames:
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE settings (run, key, num, text)")
    base.execute("CREATE TABLE metrics (run, name)")
    for key in ("config.width", "config.seed", "tag.seed", "package.torch"):
        base.execute("INSERT INTO settings VALUES (1, ?, 1, '1')", (key,))
    base.execute("INSERT INTO metrics VALUES (1, 'reward')")
    return KnownNames(base)


def test_fact_stands_before_a_setting(names: KnownNames) -> None:
    assert condition("lr < 1e-3 and commit = 'a'", names) == 'r."lr" < 1e-3 and r."commit" = \'a\''


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("width > 5", "num"),
        ("width > -5", "num"),
        ("5 < width", "num"),
        ("width between 1 and 2", "num"),
        ("width in (1, 2)", "num"),
        ("width not in (1, 2)", "num"),
        ("width * 2 > 5", "num"),
        ("width = 'auto'", "coalesce(num, text)"),
        ("width is null", "coalesce(num, text)"),
    ],
)
def test_setting_beside_a_number_is_compared_as_a_number(names: KnownNames, text: str, cell: str) -> None:
    assert f"SELECT {cell} FROM settings" in condition(text, names)


def test_metric_is_its_last_value_and_its_figures_stand_behind_a_dot(names: KnownNames) -> None:
    assert 'SELECT "last" FROM metrics' in expression("reward", names)
    assert 'SELECT "min" FROM metrics' in expression("reward.min", names)


def test_setting_that_two_kinds_have_must_be_named_whole(names: KnownNames) -> None:
    with pytest.raises(GputelError, match=r"config\.seed and tag\.seed"):
        condition("seed = 1", names)
    assert "'tag.seed'" in condition("tag.seed = 1", names)


def test_unknown_name_names_the_nearest(names: KnownNames) -> None:
    with pytest.raises(GputelError, match="did you mean reward") as error:
        condition("rewrad > 1", names)
    assert error.value.exit_code == 2


def test_text_and_functions_are_no_names(names: KnownNames) -> None:
    assert condition("lower('LR') = \"status\"", names) == "lower ( 'LR' ) = r.\"status\""


@pytest.mark.parametrize(
    "text", ["lr ; drop table runs", "lr -- 1 \x00", "'open", "lr @ 1", "1) or (1", "((lr)"]
)
def test_what_is_no_condition_is_refused(names: KnownNames, text: str) -> None:
    with pytest.raises(GputelError):
        condition(text, names)
