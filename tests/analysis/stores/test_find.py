from pathlib import Path

from gputel.analysis import stores
from gputel.analysis.runs import paths
from tests.analysis.stores.compose_events import losses, version
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
