import pytest

from gputel.analysis.catalogue.groups import experiment, grouped


def test_group_has_its_count_mean_and_deviation() -> None:
    columns, rows = grouped(["lr"], ["loss"], [(0.1, 2.0), (0.1, 4.0), (0.2, None)])
    assert columns == ["lr", "runs", "loss", "loss ±"]
    assert rows == [(0.1, 2, 3.0, pytest.approx(2**0.5)), (0.2, 1, None, None)]


def test_fraction_that_an_event_file_holds_in_32_bits_is_the_same_setting() -> None:
    settings = [0.0003, 0.0003000000142492354, 16_777_216.0, 16_777_217.0, "a", None]
    _, rows = grouped(["lr"], [], [(setting,) for setting in settings])
    assert rows == [(0.0003, 2), (16_777_216.0, 1), (16_777_217.0, 1), ("a", 1), (None, 1)]


def test_seeds_of_an_experiment_differ_in_what_belongs_to_one_run_alone() -> None:
    first: dict[str, float | str] = {
        "config.lr": 0.1,
        "config.seed": 1,
        "config.out_dir": "a",
        "tag.name": "x",
        "config.rank": 0,
    }
    second: dict[str, float | str] = {
        "config.lr": 0.1,
        "config.seed": 2,
        "config.out_dir": "b",
        "tag.name": "y",
        "config.rank": 3,
    }
    assert experiment(first) == experiment(second) == "lr=0.1"
    assert experiment({**first, "config.depth": 4}) == "depth=4, lr=0.1"
