import contextlib
import json
import multiprocessing
import subprocess
import warnings
from pathlib import Path
from typing import Any

import pytest

from gputel.telemetry import run_folder
from gputel.telemetry.clock import Stamp
from gputel.telemetry.errors import DamagedFile, GputelError
from tests.sources import homes

FACTS: dict[str, object] = {"run": "d16", "started": None, "ended": None}


def test_new_run_can_be_opened_at_once(tmp_path: Path) -> None:
    segment = run_folder.create(tmp_path / "a", FACTS)
    assert run_folder.open_folder(tmp_path / "a").segments == (segment,)
    assert run_folder.describe(segment.path) == {"schema": 1, **FACTS}


def test_wall_time_of_a_moment_is_whole_nanoseconds_or_unknown() -> None:
    facts = {"started": Stamp(1_700_000_000_123_456_789, 1, 2).as_json(), "ended": None}
    assert run_folder.wall_ns(facts, "started") == 1_700_000_000_123_456_789
    assert [run_folder.wall_ns(facts, name) for name in ("ended", "never")] == [None, None]


def test_wall_time_in_run_json_is_read_in_one_place() -> None:
    """Besides it stands where a moment is written."""
    assert homes('"wall_ns"') == {"telemetry/run_folder.py", "telemetry/clock.py"}


def test_folder_that_holds_a_run_is_refused_and_left_alone(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "a", FACTS)
    before = (tmp_path / "a" / "run.json").read_bytes()
    with pytest.raises(GputelError) as refusal:
        run_folder.create(tmp_path / "a", {"run": "other"})
    assert str(refusal.value) == (
        f"{tmp_path}/a: this folder already holds a run; choose another --out, or --continue it"
    )
    assert (tmp_path / "a" / "run.json").read_bytes() == before


def test_run_that_went_on_later_has_another_segment(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "a", FACTS)
    run_folder.add_segment(tmp_path / "a", FACTS)
    run_folder.add_segment(tmp_path / "a", FACTS)
    assert [
        s.path.relative_to(tmp_path / "a").as_posix() for s in run_folder.open_folder(tmp_path / "a").segments
    ] == [
        ".",
        "segments/2",
        "segments/3",
    ]


def test_segment_is_added_to_a_run_only(tmp_path: Path) -> None:
    with pytest.raises(GputelError, match=r"no run is here; a run folder holds a run\.json"):
        run_folder.add_segment(tmp_path, FACTS)


def test_nodes_write_side_by_side_and_a_replaced_pod_adds_a_segment_to_its_rank(tmp_path: Path) -> None:
    for node in ("0", "10", "2", "10"):
        run_folder.create(tmp_path / "a", FACTS, node=node)
    assert [(s.node, s.number) for s in run_folder.open_folder(tmp_path / "a").segments] == [
        ("0", 1),
        ("2", 1),
        ("10", 1),
        ("10", 2),
    ]


def claim(folder: Path, rank: int) -> None:
    run_folder.create(folder, {"run": "x", "node_rank": rank % 3}, node=str(rank % 3))


def test_recorders_that_start_at_once_never_share_a_folder(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    recorders = [context.Process(target=claim, args=(tmp_path / "a", rank)) for rank in range(12)]
    for recorder in recorders:
        recorder.start()
    for recorder in recorders:
        recorder.join()
        assert recorder.exitcode == 0
    segments = run_folder.open_folder(tmp_path / "a").segments
    assert [(s.node, s.number) for s in segments] == [(str(n), i) for n in range(3) for i in (1, 2, 3, 4)]
    assert all(run_folder.describe(s.path)["node_rank"] == int(s.node or -1) for s in segments)


def add_fact(folder: Path, name: str) -> None:
    run_folder.update(folder, **{name: name})


def test_facts_of_several_processes_are_merged(tmp_path: Path) -> None:
    folder = run_folder.create(tmp_path / "a", FACTS).path
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=add_fact, args=(folder, f"fact{i}")) for i in range(12)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert {f"fact{i}" for i in range(12)} <= set(run_folder.describe(folder))


def test_fact_that_cannot_be_written_leaves_what_stood_there(tmp_path: Path) -> None:
    folder = run_folder.create(tmp_path / "a", FACTS).path
    with pytest.raises(ValueError):
        run_folder.update(folder, ended=float("nan"))
    assert run_folder.describe(folder)["ended"] is None
    assert sorted(path.name for path in folder.iterdir()) == [".run.json.lock", "gpu", "run.json"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "is not JSON"),
        ("[]", "is not an object; correct it by hand, or move it away"),
        ('{"schema": 9}', "schema 9 is not 1; open it with a newer gputel"),
    ],
)
def test_broken_description_is_named(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(GputelError, match=fault):
        run_folder.describe(tmp_path)


def test_two_runs_of_one_second_get_different_folders(tmp_path: Path) -> None:
    stamp = Stamp(wall=1_795_000_000_000_000_000, monotonic=0, boot=0)
    first = run_folder.default_path(stamp, "d 16/x", tmp_path)
    first.mkdir()
    assert first.name.endswith("-d-16-x")
    assert run_folder.default_path(stamp, "d 16/x", tmp_path).name == first.name + "-2"


def test_run_json_is_readable_by_people(tmp_path: Path) -> None:
    folder = run_folder.create(tmp_path / "a", FACTS).path
    text = (folder / "run.json").read_text()
    assert text.startswith('{\n  "schema": 1,\n  "run": "d16"')
    assert json.loads(text)["ended"] is None


def test_link_that_stays_in_the_run_folder_is_followed(tmp_path: Path) -> None:
    segment = run_folder.create(tmp_path / "run", {"run": "a"})
    (segment.path / "full.log").write_text("a")
    segment.output.symlink_to("full.log")
    (tmp_path / "latest").symlink_to("run")
    assert run_folder.open_folder(tmp_path / "latest").name == "a"


def test_segment_that_leads_out_of_the_run_folder_is_left_out(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "run", {"run": "a"})
    run_folder.create(tmp_path / "other", {"run": "b"})
    (tmp_path / "run" / "segments").mkdir()
    (tmp_path / "run" / "segments" / "2").symlink_to(tmp_path / "other")
    with pytest.warns(DamagedFile, match="segments/2: cannot be read and is left out"):
        assert [segment.number for segment in run_folder.open_folder(tmp_path / "run").segments] == [1]


@pytest.mark.parametrize("name", ["²", "٣", "1" * 10, "2 "])
def test_segment_has_a_plain_number(tmp_path: Path, name: str) -> None:
    run_folder.create(tmp_path / "run", {"run": "a"})
    run_folder.create(tmp_path / "run" / "segments" / name, {"run": "b"})
    assert len(run_folder.open_folder(tmp_path / "run").segments) == 1


def test_run_json_of_another_tool_makes_no_run(tmp_path: Path) -> None:
    """Sacred keeps its experiment in a file of this name; a damaged one of ours still marks a run."""
    description = tmp_path / "run.json"
    description.write_text(json.dumps({"experiment": {"name": "a"}, "status": "COMPLETED"}))
    assert not run_folder.is_run(tmp_path)
    (tmp_path / "gpu").mkdir()
    assert run_folder.is_run(tmp_path)
    (tmp_path / "gpu").rmdir()
    for damaged in ("", "{", "{}", "[]"):
        description.write_text(damaged)
        assert run_folder.is_run(tmp_path), damaged


def test_folder_without_its_description_is_a_run_by_its_index_and_telemetry(tmp_path: Path) -> None:
    segment = run_folder.create(tmp_path / "run", {"run": "a"})
    (segment.path / "run.json").unlink()
    assert not run_folder.is_run(segment.path)
    segment.index.touch()
    assert run_folder.is_run(segment.path)


def test_end_is_written_in_the_reserved_room_of_a_full_disk(tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "small", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        folder = run_folder.create(place / "a", FACTS).path
        run_folder.reserve(folder).take()
        run_folder.update(folder, exit_code=None)
        with contextlib.suppress(OSError), (place / "ballast").open("wb", buffering=0) as ballast:
            while ballast.write(bytes(4096)):
                pass
        with pytest.raises(OSError, match="No space left"):
            run_folder.update(folder, exit_code=3)
        run_folder.update_end(folder, {"exit_code": 3})
        assert run_folder.describe(folder) == {"schema": 1, **FACTS, "exit_code": 3}
        run_folder.reserve(folder).release()
        assert {path.name for path in folder.iterdir()} == {".run.json.lock", "gpu", "run.json"}
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_discarded_segment_leaves_only_what_was_there_before(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").touch()
    for path in (tmp_path / "x" / "y" / "run", tmp_path / "mine"):
        segment = run_folder.create(path, FACTS, node="0")
        run_folder.reserve(segment.path).take()
        run_folder.discard(segment)
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")} == {"mine", "mine/notes"}


def readable(path: Path) -> tuple[dict[str, Any], list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        facts = run_folder.readable_facts(path)
    return facts, [str(warning.message) for warning in caught]


@pytest.mark.parametrize(
    "text", ["", "[" * 100_000, "[1]", '{"schema": 7}', "\x00\x01", '{"schema": 1, "run']
)
def test_damaged_description_is_nothing_and_one_warning(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    facts, lines = readable(tmp_path)
    assert facts == {}
    assert len(lines) == 1
    assert lines[0].startswith(f"{tmp_path / 'run.json'}: cannot be read and is left out (")


def test_values_of_wrong_type_are_left_out_and_named(tmp_path: Path) -> None:
    good = {"schema": 1, "run": "d16", "started": {"wall_ns": 5}, "exit_code": None}
    wrong = {"gpus": [{"gpu": 0}], "argv": [True], "ended": {"wall_ns": 2**200}, "sampling": "fast"}
    (tmp_path / "run.json").write_text(json.dumps({**good, **wrong}))
    facts, lines = readable(tmp_path)
    assert facts == good
    assert lines == [
        f"{tmp_path / 'run.json'}: has values of a wrong type, which are left out "
        "(argv, gpus, sampling, ended)"
    ]


@pytest.mark.parametrize("sampling", [{"hz": "100"}, {"hz": [1]}, {"hz": 100, "statistics": 3}])
def test_sampling_without_a_number_of_hz_or_a_table_of_statistics_is_left_out(
    tmp_path: Path, sampling: object
) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"schema": 1, "sampling": sampling}))
    facts, lines = readable(tmp_path)
    assert facts == {"schema": 1}
    assert len(lines) == 1


def test_secrets_that_another_program_recorded_are_masked_for_every_reader(tmp_path: Path) -> None:
    key = "sk-live-51H8xYzAbCdEfGhIjKlMn"
    facts = {
        "argv": ["train.py", "--api-key", key],
        "env": {"WANDB_API_KEY": key},
        "tags": {"pw": key, "lr": "1"},
    }
    segment = run_folder.create(tmp_path / "run", facts).path
    read = run_folder.readable_facts(segment)
    assert (read["argv"], read["env"]) == (["train.py", "--api-key", "***"], {"WANDB_API_KEY": "***"})
    assert read["tags"] == {"pw": "***", "lr": "1"}
