"""Which objects are parts of a run, and which files of a run are sent."""

import itertools
from pathlib import Path

import pytest

from gputel.telemetry import run_folder
from gputel.telemetry.remote import file_kinds


@pytest.mark.parametrize(
    ("name", "run", "home", "file", "kind"),
    [
        ("run.json", "", "", "run.json", "replaced"),
        ("gpu/fast-000001.parquet", "", "", "gpu/fast-000001.parquet", "final"),
        ("segments/2/output.log", "", "segments/2/", "output.log", "growing"),
        ("nodes/3/segments/2/fresh/00000007", "", "nodes/3/segments/2/", "fresh/00000007", "bundle"),
        ("d16/sealed.json", "d16", "", "sealed.json", "seal"),
        ("inside/4242-99.steps", "", "", "inside/4242-99.steps", "growing"),
        (
            "team/d16/nodes/0/process/names.jsonl",
            "team/d16",
            "nodes/0/",
            "process/names.jsonl",
            "growing",
        ),
        (
            "d16/incidents/20261122-140307/stacks.txt",
            "d16",
            "",
            "incidents/20261122-140307/stacks.txt",
            "final",
        ),
    ],
)
def test_name_of_an_object_says_run_segment_and_file(
    name: str, run: str, home: str, file: str, kind: str
) -> None:
    assert file_kinds.place(name) == (run, home, file, kind)


@pytest.mark.parametrize(
    "name",
    [
        "../run.json",
        "a/../../run.json",
        "/run.json",
        ".hidden/run.json",
        "a\x1b[2J/run.json",
        "gpu/.hidden.parquet",
        "gpu/x/y.parquet",
        "source/diff.patch",
        "notes.txt",
        "fresh/1",
        f"{'a' * 300}/run.json",
    ],
)
def test_other_objects_are_no_part_of_a_run(name: str) -> None:
    assert file_kinds.place(name) is None


def test_source_links_and_drafts_are_not_sent(tmp_path: Path) -> None:
    segment = run_folder.create(tmp_path / "run", {}).path
    secret = tmp_path / "secret"
    secret.write_text("mine")
    (segment / "output.log").symlink_to(secret)
    (segment / "gpu" / "fast-000001.parquet").symlink_to(secret)
    (segment / "source").mkdir()
    (segment / "source" / "diff.patch").write_text("-a\n+b\n")
    (segment / ".run.json.lock").write_text("")
    (segment / "events.jsonl").write_text("{}\n")
    assert file_kinds.files(segment, "final", "growing", "replaced") == ["events.jsonl", "run.json"]


@pytest.mark.parametrize(
    ("home", "following"),
    [
        ("", ["", "segments/2/", "segments/3/"]),
        ("nodes/3/", ["nodes/3/", "nodes/3/segments/2/", "nodes/3/segments/3/"]),
        ("nodes/3/segments/2/", ["nodes/3/segments/2/", "nodes/3/segments/3/", "nodes/3/segments/4/"]),
    ],
)
def test_segment_that_replaces_another_comes_behind_it(home: str, following: list[str]) -> None:
    assert list(itertools.islice(file_kinds.successors(home), 3)) == following
