"""What the code was: saved beside a recording, masked and bounded."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gputel.telemetry import source_code

TRAIN = 'print("step 0 | loss 9.5")\n'


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "credentials.json").write_text("{}\n")
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.email=a@b", "-c", "user.name=a", "commit", "-qm", "a"],
    ):
        subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)
    return folder


def saved(folder: Path, *argv: str) -> Path:
    segment = folder / "runs" / "a"
    segment.mkdir(parents=True)
    source_code.save(segment, argv, folder)
    assert not list(segment.glob(".source*"))
    return segment / "source"


def test_changes_and_named_files_are_saved_with_secrets_masked(repository: Path) -> None:
    (repository / "train.py").write_text(TRAIN + 'api_key = "correct-horse-9"\n')
    (repository / "conf.yaml").write_text("lr: 0.2\npassword: battery-staple\n")
    folder = saved(repository, "python", "train.py", "--config=conf.yaml", "--lr", "0.1", "missing.py")
    diff, conf = (folder / "diff.patch").read_text(), (folder / "files" / "conf.yaml").read_text()
    assert "+api_key = " in diff
    assert "lr: 0.2" in conf
    assert not [text for text in (diff, conf) if "correct-horse" in text or "battery" in text]
    contents = source_code.describe(folder.parent)
    assert [file["name"] for file in contents["files"]] == ["train.py", "conf.yaml"]
    assert len(contents["diff"]) == 64


def test_untracked_files_are_named_without_the_run_itself(repository: Path) -> None:
    (repository / "notes.txt").write_text("hello\n")
    (repository / "runs").mkdir()
    (repository / "runs" / ".gitkeep").write_text("")
    subprocess.run(["git", "-C", str(repository), "add", "runs"], check=True)
    assert (saved(repository) / "untracked.txt").read_text() == "notes.txt\n"


@pytest.mark.parametrize(
    "name", [".env", ".env.local", "prod.env", "credentials.json", "api_key.yaml", "db_password_file"]
)
def test_file_that_is_called_like_secrets_is_never_saved(repository: Path, name: str) -> None:
    (repository / name).write_text("PLAIN=words\n")
    subprocess.run(["git", "-C", str(repository), "add", "-Af"], check=True)
    folder = saved(repository, "run", name)
    assert not [path for path in folder.rglob("*") if path.is_file() and "PLAIN" in path.read_text()]
    assert name in {each["name"] for each in source_code.describe(folder.parent)["left_out"]}


def test_private_key_is_masked_as_one_piece(repository: Path) -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\ndefghi\n-----END RSA PRIVATE KEY-----\n"
    (repository / "train.py").write_text(TRAIN + f'KEY = """{key}"""\nafter = 1\n')
    folder = saved(repository, "train.py")
    for text in ((folder / "diff.patch").read_text(), (folder / "files" / "train.py").read_text()):
        assert "MIIabc" not in text
        assert "defghi" not in text
        assert "after = 1" in text


def test_large_diff_becomes_its_counts(repository: Path) -> None:
    (repository / "train.py").write_text("x = 1\n" * 300_000)
    folder = saved(repository, "train.py")
    assert not (folder / "diff.patch").exists()
    assert "train.py" in (folder / "diff.stat").read_text()
    assert {each["why"] for each in source_code.describe(folder.parent)["left_out"]} == {
        "over 1 MiB",
        "over 256 KiB, or 1 MiB in all",
    }


def test_fifo_that_the_command_names_is_not_opened(repository: Path) -> None:
    os.mkfifo(repository / "pipe.py")
    assert not source_code.describe(saved(repository, "pipe.py").parent).get("files")


@pytest.mark.parametrize("name", ["conf.yaml", "configs/conf.yaml"])
def test_link_out_of_the_repository_is_not_saved(repository: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "conf.yaml").write_text("PLAIN: words\n")
    (repository / "conf.yaml").symlink_to(tmp_path / "private" / "conf.yaml")
    (repository / "configs").symlink_to(tmp_path / "private")
    (repository / "inner.py").symlink_to("train.py")
    contents = source_code.describe(saved(repository, "run", name, "inner.py").parent)
    assert contents["left_out"] == [{"name": name, "why": "a link out of its folder"}]
    assert [file["name"] for file in contents["files"]] == ["inner.py"]


def test_folder_outside_a_repository_has_the_named_files_alone(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    folder = saved(tmp_path, "train.py")
    assert sorted(path.name for path in folder.iterdir()) == ["files", "source.json"]


@pytest.mark.parametrize("name", ["source", "source/source.json"])
def test_source_behind_a_link_or_a_pipe_is_not_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    folder = saved(tmp_path, "train.py")
    place = folder.parent / name
    place.rename(tmp_path / "taken")
    place.symlink_to(tmp_path / "taken")
    assert not source_code.describe(folder.parent)
    place.unlink()
    os.mkfifo(place)
    assert not source_code.describe(folder.parent)


def test_nothing_to_save_leaves_no_folder(tmp_path: Path) -> None:
    assert not saved(tmp_path, "true").exists()
