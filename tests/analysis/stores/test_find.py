import os
from pathlib import Path

import pytest

from gputel.analysis import stores
from gputel.analysis.runs import paths
from tests.analysis.stores.compose_events import event, losses, simple, version
from tests.analysis.stores.test_tensorboard import write

EVENTS = version() + losses(range(5))


def test_walk_gives_one_path_for_the_event_files_of_a_run_and_goes_on_below(tmp_path: Path) -> None:
    write(tmp_path / "a", EVENTS, EVENTS)
    write(tmp_path / "b" / "train", EVENTS)
    write(tmp_path / "b" / "validation", EVENTS)
    (tmp_path / "a" / "train.log").write_text("step 1 loss 2.0\n" * 3)
    write(tmp_path / "a" / "seed1", EVENTS)
    found = [str(path.relative_to(tmp_path)) for path in paths.walk(tmp_path)]
    assert found == ["a", "a/seed1", "a/train.log", "b"]


def test_event_files_are_known_by_content_and_not_by_name(tmp_path: Path) -> None:
    (tmp_path / "catboost").mkdir()
    (tmp_path / "catboost" / "events").write_bytes(EVENTS)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "events.out.tfevents.1").write_text("step 1 loss 2.0\n")
    assert stores.kind(tmp_path / "catboost") == "tensorboard"
    assert stores.kind(tmp_path / "other") is None


def test_store_that_is_a_link_is_read_once(tmp_path: Path) -> None:
    write(tmp_path / "run", EVENTS)
    (tmp_path / "latest").symlink_to(tmp_path / "run")
    assert [path.name for path in paths.walk(tmp_path)] == ["run"]


def test_folder_that_lies_in_itself_ends(tmp_path: Path) -> None:
    write(tmp_path / "run", EVENTS)
    (tmp_path / "run" / "again").symlink_to(tmp_path)
    assert [path.name for path in paths.walk(tmp_path)] == ["run"]


def test_pipe_without_a_writer_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert stores.look(tmp_path / "pipe") == (None, None)


def test_file_that_grows_into_a_log_is_looked_at_again(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"\x01\x02")
    assert stores.look(path).binary == "binary data"
    path.write_text("step 1 loss 2.0\n")
    assert stores.look(path) == (None, None)


def test_walk_opens_each_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["a.log", "b.log", "metrics.csv", "model.pt"]
    for name in names:
        (tmp_path / name).write_bytes(
            b"PK\x03\x04" if name == "model.pt" else b"epoch,step,loss\n1,1,2.0\n2,2,1.0\n"
        )
    opened: list[str] = []
    really_open = os.open

    def counted(path: str, *how: int) -> int:
        opened.append(Path(path).name)
        return really_open(path, *how)

    monkeypatch.setattr(os, "open", counted)
    monkeypatch.setattr(Path, "open", None)
    found = list(paths.walk(tmp_path))
    assert [path.name for path in found] == names[:3]
    assert [stores.kind(path) for path in found] == ["csv"] * 3
    assert sorted(opened) == names


SB3 = "rollout/ep_rew_mean,time/total_timesteps\n1.5,100\n2.5,200\n"
EPISODES = '#{"t_start": 1704164646.0, "env_id": "x"}\nr,l,t\n1.5,100,1.0\n'


def test_folder_of_stable_baselines_is_one_run(tmp_path: Path) -> None:
    (tmp_path / "monitor.csv").write_text(EPISODES)
    assert [path.name for path in paths.walk(tmp_path)] == ["monitor.csv"]
    (tmp_path / "progress.csv").write_text(SB3)
    assert [path.name for path in paths.walk(tmp_path)] == ["progress.csv"]
    events = tmp_path / "events.out.tfevents.1.n.1.0"
    events.write_bytes(version() + event(100, [simple("rollout/ep_rew_mean", 1.5)]))
    assert list(paths.walk(tmp_path)) == [tmp_path]
    (tmp_path / "progress.csv").write_text("epoch,loss\n1,2.5\n2,2.25\n")
    assert len(list(paths.walk(tmp_path))) == 3


def test_logger_of_stable_baselines_that_writes_rows_and_prints_them_too_is_one_run(tmp_path: Path) -> None:
    (tmp_path / "progress.json").write_text('{"rollout/ep_rew_mean": 1.5, "time/total_timesteps": 100}\n' * 3)
    (tmp_path / "log.txt").write_text(
        "Logging to here\n-----------\n| time/ | |\n| total_timesteps | 100 |\n"
    )
    assert [path.name for path in paths.walk(tmp_path)] == ["progress.json"]
    (tmp_path / "progress.csv").write_text(SB3)
    assert [path.name for path in paths.walk(tmp_path)] == ["progress.csv"]
    (tmp_path / "log.txt").write_text("step 1 loss 2.0\n" * 3)
    assert [path.name for path in paths.walk(tmp_path)] == ["log.txt", "progress.csv"]


TRIAL = '{"training_iteration": 1, "time_total_s": 1.5, "mean_loss": 2.5}\n'


def test_trial_of_ray_tune_is_one_run_beside_its_table_and_its_events(tmp_path: Path) -> None:
    """An event file with tags of the program itself is a run, too."""
    (tmp_path / "result.json").write_text(TRIAL)
    (tmp_path / "params.json").write_text('{"lr": 0.1, "step": 1, "loss": 2}\n')
    (tmp_path / "progress.csv").write_text("training_iteration,time_total_s\n1,1.5\n")
    events = tmp_path / "events.out.tfevents.1.n"
    events.write_bytes(version() + losses(range(5), "ray/tune/mean_loss"))
    assert [path.name for path in paths.walk(tmp_path)] == ["result.json"]
    events.write_bytes(version() + losses(range(5), "ray/tune/mean_loss") + losses(range(5), "own/loss"))
    assert sorted(paths.walk(tmp_path)) == [tmp_path, tmp_path / "result.json"]


def test_state_of_an_experiment_of_ray_tune_is_no_run(tmp_path: Path) -> None:
    state = '{"trial_data": [["{}", "{}"]], "runner_data": {"step": 1, "loss": 2.5}}\n'
    (tmp_path / "experiment_state-2026-11-23_14-36-03.json").write_text(state)
    assert list(paths.walk(tmp_path)) == []


def test_table_of_stable_baselines_with_columns_of_its_own_is_read_beside_the_events(tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_text(SB3)
    events = tmp_path / "events.out.tfevents.1.n.1.0"
    events.write_bytes(version() + losses(range(3)))
    assert sorted(paths.walk(tmp_path)) == [tmp_path, tmp_path / "progress.csv"]
    late = event(100, [simple("rollout/ep_rew_mean", 1.5)])
    events.write_bytes(version() + losses(range(9)) + late)
    assert list(paths.walk(tmp_path)) == [tmp_path]
