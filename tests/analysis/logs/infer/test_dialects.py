"""Foreign names lead to columns that gputel knows."""

from __future__ import annotations

import pytest

from gputel.analysis.logs import names, values
from gputel.analysis.logs.infer import dialects


@pytest.mark.parametrize(("name", "target"), sorted(dialects.FOREIGN.items()))
def test_foreign_name_is_a_column_with_a_unit_that_it_can_have(name: str, target: str) -> None:
    column, _, unit = target.partition(" ")
    field = names.Vocabulary(dialects.FOREIGN).field(name.encode(), b"")
    assert field is not None
    assert field.column == column
    assert not unit or any(unit in table for table in values.CANONICAL.values())


@pytest.mark.parametrize("word", ["loss", "val_acc", "ppl", "f1", "rmse", "episode_reward", "SI-SDR", "pesq"])
def test_measures_are_known_by_a_part_of_their_name(word: str) -> None:
    assert dialects.MEASURE.search(word)


@pytest.mark.parametrize("word", ["step", "lr", "seconds", "memory", "history"])
def test_places_and_circumstances_are_no_measures(word: str) -> None:
    assert not dialects.MEASURE.search(word)
