"""Stores are followed as logs are."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from gputel.analysis.live.follower import Follower
from gputel.analysis.live.stores import FollowedStore
from gputel.analysis.live.update import Update
from tests.analysis.stores.compose_events import event, losses, simple, version
from tests.analysis.stores.test_databases import mlflow, trackio
from tests.analysis.stores.test_tensorboard import write


class GivenTime:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def steps(updates: list[Update]) -> list[int]:
    return [s for update in updates if update.increment for s in update.increment.records["step"].to_list()]


def test_rows_of_event_files_come_once_as_they_are_written(tmp_path: Path) -> None:
    data = version() + losses(range(40))
    run = FollowedStore(write(tmp_path / "run", data[:900]), None, GivenTime())
    updates = list(run.read())
    assert not updates[0].live
    for end in (1200, 1900, len(data)):
        write(tmp_path / "run", data[:end])
        updates += run.read()
    assert list(run.read()) == []
    assert steps(updates) == list(range(39))
    assert updates[-1].increment
    assert updates[-1].increment.open_records["step"].to_list() == [39]
    assert updates[-1].live


def test_one_run_of_a_database_is_followed_by_its_address(tmp_path: Path) -> None:
    with closing(Follower([f"{mlflow(tmp_path / 'mlflow.db')}#second"])) as follower:
        assert steps(follower.read()) == list(range(4))
        assert (follower.awaited, [run.name for run in follower.runs]) == ([], ["second"])


def test_followed_store_has_the_name_that_parse_gives_it(tmp_path: Path) -> None:
    """The file of every trial of Ray Tune is `result.json`; of a database the path says nothing of its only run."""
    trial = tmp_path / "train_fn_0f3a"
    trial.mkdir()
    row = '{"loss": 2.5, "training_iteration": 1, "time_total_s": 1.5, "timestamp": 1700000001}'
    (trial / "result.json").write_text(row + "\n")
    with closing(Follower([str(trial), str(trackio(tmp_path / "project.db", with_ids=True))])) as follower:
        follower.read()
        assert [run.name for run in follower.runs] == ["train_fn_0f3a", "run-a"]
        assert [run.state.view().name for run in follower.runs] == ["train_fn_0f3a", "run-a"]


def test_value_that_comes_late_for_a_row_that_was_shown_gives_all_rows_afresh(tmp_path: Path) -> None:
    first = version() + losses(range(5))
    run = FollowedStore(write(tmp_path / "run", first), None, GivenTime())
    updates = list(run.read())
    write(tmp_path / "run", first + event(2, [simple("lr", 0.5)]))
    (update,) = run.read()
    assert update.increment
    assert update.increment.afresh
    assert update.increment.records["step"].to_list() == [0, 1, 2, 3]
    assert steps(updates) == [0, 1, 2, 3]


def test_silence_is_awaited_only_beyond_three_times_the_longest_pause(tmp_path: Path) -> None:
    clock = GivenTime()
    data = version() + losses(range(90))
    run = FollowedStore(write(tmp_path / "run", data[:500]), None, clock)
    for update in run.read():
        run.state.take(update)
    clock.now += 200
    write(tmp_path / "run", data)
    for update in run.read():
        run.state.take(update)
    clock.now += 500
    assert not run.is_awaited
    clock.now += 300
    assert run.is_awaited


def test_follower_takes_stores_among_logs(tmp_path: Path) -> None:
    write(tmp_path / "tb", version() + losses(range(5)))
    (tmp_path / "train.log").write_text("".join(f"step {n} loss {9 - n}.0\n" for n in range(5)))
    follower = Follower([str(tmp_path)])
    follower.read()
    assert sorted(run.name for run in follower.runs) == ["tb", "train"]
    kept = {run.name: run.state.view().step for run in follower.runs}
    assert kept == {"tb": 4, "train": 4}
    follower.close()
