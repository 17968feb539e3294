from pathlib import Path

import pytest

from gputel.analysis import stores
from gputel.analysis.runs import paths
from gputel.analysis.stores import tensorboard
from gputel.analysis.stores.assemble import make_log
from tests.analysis.stores.compose_events import event, losses, session_start, simple, tensor, version


def write(folder: Path, *files: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(files):
        (folder / f"events.out.tfevents.170000000{number}.host.1.{number}").write_bytes(data)
    return folder


def test_file_that_names_the_step_of_its_session_begins_an_attempt_and_nothing_is_purged(
    tmp_path: Path,
) -> None:
    resumed = version() + session_start(120) + losses(range(120, 200))
    log = stores.read(write(tmp_path / "run", version() + losses(range(150)), resumed))
    assert log.places == [("train", 1), ("train", 2)]
    assert log.records.height == 230
    assert log.steps.height == 200
    (resume,) = log.events.filter(log.events["kind"] == "resume").to_dicts()
    assert (resume["step"], resume["text"]) == (120, "a session starts at step 120; later rows supersede")
    assert log.events.filter(log.events["kind"] == "restart").is_empty()


def test_file_whose_steps_are_not_above_those_before_it_begins_an_attempt(tmp_path: Path) -> None:
    log = stores.read(write(tmp_path, version() + losses(range(10)), version() + losses(range(9, 20))))
    assert log.places == [("train", 1), ("train", 2)]
    assert log.events["kind"].to_list() == ["restart"]


def test_file_that_goes_on_where_the_last_one_ended_is_the_same_attempt(tmp_path: Path) -> None:
    log = stores.read(write(tmp_path, version() + losses(range(10)), version() + losses(range(10, 20))))
    assert log.places == [("train", 1)]


def test_two_tags_that_fall_one_after_the_other_begin_one_attempt(tmp_path: Path) -> None:
    steps = [*range(5), *range(2, 8)]
    data = b"".join(event(s, [simple("loss", 1)]) + event(s, [simple("lr", 1)]) for s in steps)
    log = stores.read(write(tmp_path, version() + data))
    assert log.places == [("train", 1), ("train", 2)]
    assert log.records["attempt"].to_list() == [1] * 5 + [2] * 6


def test_children_called_train_and_validation_belong_to_their_parent(tmp_path: Path) -> None:
    write(tmp_path / "train", version() + losses(range(10), "epoch_loss"))
    write(tmp_path / "validation", version() + losses(range(10), "epoch_loss"))
    log = stores.read(tmp_path)
    assert (log.records.height, log.records["loss"][9]) == (10, pytest.approx(0.8))
    assert log.evals["name"].unique().to_list() == ["val_loss"]
    assert log.places == [("train", 1)]


@pytest.mark.parametrize("folders", [("Loss_x_train", "Loss_x_val"), ("Loss/x/train", "Loss/x/val")])
def test_curves_of_add_scalars_belong_to_the_run_of_their_writer(
    tmp_path: Path, folders: tuple[str, str]
) -> None:
    """torch writes a folder for each, tensorboardX a folder within a folder."""
    write(tmp_path / "run", version() + losses(range(10), "lr"))
    for folder in folders:
        write(tmp_path / "run" / folder, version() + losses(range(10), "Loss/x"))
    write(tmp_path / "run" / "Loss_other", version() + losses(range(3)) + losses(range(3), "lr"))
    run, other = paths.walk(tmp_path)
    log = stores.read(run)
    assert (log.name, other.name) == ("run", "Loss_other")
    assert log.sources["Loss_x"].source == "Loss/x/train"
    assert log.records["Loss_x"][9] == pytest.approx(0.8)
    assert log.evals["name"].unique().to_list() == ["val_Loss_x"]


def test_settings_of_add_hparams_belong_to_the_run_of_their_writer(tmp_path: Path) -> None:
    """Several such folders are a sweep, and runs of their own."""
    run = write(tmp_path / "run", version() + losses(range(10)))
    settings = tensor("_hparams_/experiment", 1, b"", "hparams")
    results = event(0, [settings]) + event(0, [simple("train/loss", 7)])
    write(run / "1700000000.25", version() + results)
    log = stores.read(run)
    assert list(paths.walk(tmp_path)) == [run]
    assert (log.records["loss"][0], log.summary) == (8.0, {"hparam/train/loss": 7.0})
    write(run / "1700000001.25", version() + results)
    assert len(list(paths.walk(tmp_path))) == 3


def test_step_without_a_record_metric_is_a_partial_row(tmp_path: Path) -> None:
    data = losses(range(0, 100, 10)) + losses(range(5, 100, 50), "accuracy")
    log = stores.read(write(tmp_path, version() + data))
    assert log.records.height == 10
    assert log.partials["step"].to_list() == [5, 55]


def test_every_step_is_a_record_where_nothing_is_a_record_metric(tmp_path: Path) -> None:
    """Reinforcement learning with rewards alone."""
    data = losses(range(0, 100, 10), "rollout/ep_rew_mean")
    log = stores.read(write(tmp_path, version() + data))
    assert log.records.height == 10
    assert log.records["rollout_ep_rew_mean"].null_count() == 0


def test_last_value_of_a_step_counts(tmp_path: Path) -> None:
    data = event(1, [simple("loss", 3)]) + event(1, [simple("loss", 2)])
    assert stores.read(write(tmp_path, version() + data)).records["loss"].to_list() == [2.0]


def test_averages_that_the_trainer_writes_at_the_end_are_its_summary(tmp_path: Path) -> None:
    ending = b"".join(
        event(9, [simple(f"train/{n}", 5)]) for n in ("train_loss", "train_runtime", "total_flos")
    )
    log = stores.read(write(tmp_path, version() + losses(range(10)) + ending))
    assert log.records["loss"][9] == pytest.approx(0.8)
    assert log.summary == {"train_loss": 5.0, "train_runtime": 5.0, "total_flos": 5.0}


def test_time_of_a_row_is_its_wall_time_and_lines_are_null(tmp_path: Path) -> None:
    log = stores.read(write(tmp_path, version() + losses(range(3))))
    assert [str(moment) for moment in log.records["time"].dt.epoch("s")] == [
        "1700000000",
        "1700000001",
        "1700000002",
    ]
    assert log.lines is None


def test_growing_files_give_the_rows_of_the_whole(tmp_path: Path) -> None:
    """A file that grows by odd pieces, and a second one that comes later."""
    first, second = version() + losses(range(40)), version() + losses(range(20, 60))
    write(tmp_path / "whole", first, second)
    folder = write(tmp_path / "grown", first[:100])
    reader = tensorboard.FolderReader(folder)
    for end in (700, 1333, len(first)):
        reader.advance()
        write(folder, first[:end])
    reader.advance()
    write(folder, first, second[:333])
    reader.advance()
    write(folder, first, second)
    assert reader.advance()
    assert not reader.advance()
    assert make_log(reader.run()).records.equals(stores.read(tmp_path / "whole").records)


def test_event_file_that_is_named_itself_is_a_run(tmp_path: Path) -> None:
    write(tmp_path / "run", version() + losses(range(3)), version() + losses(range(3)))
    (first, _) = sorted((tmp_path / "run").iterdir())
    assert stores.read(first).records.height == 3
