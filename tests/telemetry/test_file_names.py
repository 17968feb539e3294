"""What data says is a file's name at most, and never a path."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.telemetry.file_names import MOST, file_name, file_names, matches, unique_names

HOSTILE = st.text(st.sampled_from("aZé9._-/\\\0\n ~*\ud800"), max_size=300) | st.text()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("d16", "d16"),
        ("../../X", "X"),
        ("/etc/passwd", "etc-passwd"),
        ("a run (lr=0.02)", "a-run-lr-0.02"),
        (".hidden", "hidden"),
        ("-rf", "rf"),
        ("..", "run"),
        ("lä\0uf", "lä-uf"),
        ("é" * 300, "é" * (MOST // 2)),
    ],
)
def test_name_of_a_file_has_letters_digits_and_few_signs(text: str, name: str) -> None:
    assert file_name(text) == name


@given(HOSTILE)
def test_name_of_a_file_is_one_short_part_of_a_path(text: str) -> None:
    name = file_name(text)
    assert name[0] not in ".-"
    assert len(name.encode()) <= MOST
    assert all(letter.isalnum() or letter in "._-" for letter in name)
    assert file_name(name) == name


@given(st.lists(HOSTILE, max_size=30))
def test_names_of_one_call_differ_where_case_does_not_count(texts: list[str]) -> None:
    names = file_names(texts)
    assert len({name.casefold() for name in names}) == len(texts)
    assert all(len(name.encode()) <= MOST and name[0] not in ".-" for name in names)


def test_name_that_was_taken_gets_a_number() -> None:
    assert file_names(["a", "a-2", "A", "a/", "b"]) == ["a", "a-2", "A-3", "a-4", "b"]


def test_word_matches_its_path_or_its_glob_through_folders_in_natural_order(tmp_path: Path) -> None:
    for name in ("r10", "r2", "deep/r1", "r[1]"):
        (tmp_path / name).mkdir(parents=True)
    assert matches(tmp_path / "r[1]") == [tmp_path / "r[1]"]
    assert matches(f"{tmp_path}/r[0-9]*") == [tmp_path / "r2", tmp_path / "r10"]
    assert matches(f"{tmp_path}/**/r1") == [tmp_path / "deep" / "r1"]
    assert matches(tmp_path / "gone") == []


def test_names_are_distinguished_by_as_many_folders_as_that_takes(tmp_path: Path) -> None:
    """A file may be named by its folder, which then stands once; a folder that looks like a secret needs a name."""
    keys = ["71894b206e054e65b27d54daecbc035f", "d421504eb2b84a378e4880084c8d65be"]
    files = ("csv/logs/v0/metrics.csv", "tb/logs/v0/metrics.csv")
    for folder in ("d16", *keys):
        (tmp_path / folder).mkdir()
    places = [tmp_path / name for name in (*files, "b.log", "b.log", "d16", *keys)]
    found = unique_names(["v0", "v0", "b", "b", "base", "base", "base"], places)
    assert found == ["csv/logs/v0", "tb/logs/v0", "b", "b (2)", "d16", *(f"{key}/base" for key in keys)]
