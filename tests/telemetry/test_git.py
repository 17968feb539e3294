"""What git is asked about a folder, without a command of the folder's author."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gputel.telemetry import git, identity, source_code


def run_git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    folder.mkdir()
    run_git(folder, "init", "-q")
    commit(folder, "train.py", "x = 1\n")
    return folder


def commit(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    run_git(folder, "add", "-A")
    run_git(folder, "-c", "user.email=a@b", "-c", "user.name=a", "commit", "-qm", "a")


def save(folder: Path, tmp_path: Path, *argv: str) -> Path:
    segment = tmp_path / "segment"
    segment.mkdir()
    source_code.save(segment, argv, folder)
    return segment / "source"


@pytest.mark.parametrize("driver", ["evil", "e.v.i.l", "a=b", "Ünïcode"])
@pytest.mark.parametrize("value", ["clean", "process"])
def test_filter_of_a_repository_runs_no_command(clone: Path, tmp_path: Path, driver: str, value: str) -> None:
    commit(clone, ".gitattributes", f"*.py filter={driver}\n")
    (clone / "more").write_text(f'[filter "{driver}"]\n{value} = "touch {tmp_path}/ran; cat"\n')
    run_git(clone, "config", "include.path", "../more")
    (clone / "train.py").write_text("x = 2\n")
    identity.git(clone)
    save(clone, tmp_path)
    assert not (tmp_path / "ran").exists()
    subprocess.run(["git", "-C", str(clone), "add", "train.py"], capture_output=True)
    assert (tmp_path / "ran").exists(), "the attack is one"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("core.fsmonitor", "touch {ran}; false"),
        ("core.pager", "touch {ran}; cat"),
        ("pager.status", "touch {ran}; cat"),
        ("diff.external", "touch {ran}; true"),
        ("diff.evil.textconv", "touch {ran}; cat"),
        ("diff.evil.command", "touch {ran}; true"),
        ("alias.diff", "!touch {ran}"),
    ],
)
def test_setting_of_a_repository_runs_no_command(clone: Path, tmp_path: Path, name: str, value: str) -> None:
    commit(clone, ".gitattributes", "*.py diff=evil\n")
    run_git(clone, "config", name, value.format(ran=tmp_path / "ran"))
    (clone / "train.py").write_text("x = 2\n")
    facts = identity.git(clone)
    folder = save(clone, tmp_path)
    assert not (tmp_path / "ran").exists()
    assert facts
    assert facts["dirty"] is True
    assert "+x = 2" in (folder / "diff.patch").read_text()


def test_settings_of_a_submodule_run_no_command(clone: Path, tmp_path: Path) -> None:
    ran = f"touch {tmp_path}/ran; cat"
    run_git(clone, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(clone), "part")
    commit(clone / "part", ".gitattributes", "*.py filter=evil diff=evil\n")
    for name in ("filter.evil.clean", "diff.evil.textconv", "core.fsmonitor"):
        run_git(clone / "part", "config", name, ran)
    run_git(clone, "config", "diff.submodule", "diff")
    (clone / "part" / "train.py").write_text("x = 2\n")
    identity.git(clone)
    save(clone, tmp_path)
    assert not (tmp_path / "ran").exists()


def test_hooks_of_a_repository_do_not_run(clone: Path, tmp_path: Path) -> None:
    for name in ("post-index-change", "reference-transaction", "fsmonitor-watchman"):
        hook = clone / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        hook.chmod(0o755)
    os.utime(clone / "train.py", (1, 1))
    identity.git(clone)
    save(clone, tmp_path)
    assert not (tmp_path / "ran").exists()


def test_missing_objects_are_not_fetched(clone: Path, tmp_path: Path) -> None:
    for name, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.url", "ssh://example.invalid/x"),
        ("remote.origin.promisor", "true"),
        ("core.sshCommand", f"touch {tmp_path}/ran; false"),
    ):
        run_git(clone, "config", name, value)
    for path in (clone / ".git" / "objects").glob("??/*"):
        kind = subprocess.run(
            ["git", "-C", str(clone), "cat-file", "-t", path.parent.name + path.name], capture_output=True
        )
        if kind.stdout == b"blob\n":
            path.unlink()
    (clone / "train.py").write_text("x = 2\n")
    save(clone, tmp_path)
    assert not (tmp_path / "ran").exists()


def test_folder_that_looks_like_a_repository_runs_no_command(clone: Path, tmp_path: Path) -> None:
    bare = clone / "bare"
    run_git(clone, "clone", "-q", "--bare", ".", "bare")
    (bare / "config").write_text(
        f'[core]\nbare = false\nworktree = ..\nfsmonitor = "touch {tmp_path}/ran; false"\n'
    )
    identity.git(bare)
    save(bare, tmp_path)
    assert not (tmp_path / "ran").exists()


def test_repository_whose_files_are_said_to_lie_elsewhere_has_no_diff_of_them(tmp_path: Path) -> None:
    home = tmp_path / "home"
    clone = home / "clone"
    clone.mkdir(parents=True)
    run_git(clone, "init", "-q")
    commit(clone, "notes", "")
    (home / "notes").write_text("private\n")
    run_git(clone, "config", "core.worktree", str(home))
    assert not (save(clone, tmp_path) / "diff.patch").exists()


def test_filter_of_the_user_runs(clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that git-lfs keeps is not said to be changed because its filter was left out."""
    (tmp_path / "config").write_text('[filter "lower"]\nclean = tr A-Z a-z\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    commit(clone, ".gitattributes", "*.py filter=lower\n")
    (clone / "train.py").write_text("X = 1\n")
    facts = identity.git(clone)
    assert facts
    assert facts["dirty"] is False


def test_change_of_a_filtered_file_is_not_known(clone: Path, tmp_path: Path) -> None:
    commit(clone, ".gitattributes", "*.py filter=lower\n")
    run_git(clone, "config", "filter.lower.clean", "tr A-Z a-z")
    (clone / "train.py").write_text("X = 1\n")
    facts = identity.git(clone)
    assert facts
    assert facts["dirty"] is None
    assert [each["name"] for each in source_code.describe(save(clone, tmp_path).parent)["left_out"]] == [
        "filters"
    ]


def test_answer_is_cut_one_byte_after_its_most(clone: Path) -> None:
    repository = git.repository(clone)
    assert repository
    assert len(repository.ask("rev-parse", "HEAD", most=7) or b"") == 8
