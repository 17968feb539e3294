"""Settings files: which one counts, and which are ignored."""

import os
from pathlib import Path

import pytest

from gputel.telemetry import settings
from gputel.telemetry.errors import GputelError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_nearest_settings_upwards_count(tmp_path: Path) -> None:
    (tmp_path / "gputel.toml").write_text("[record]\nhz = 50\n")
    nested = tmp_path / "a" / "b"
    nested.mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert settings.from_folder(nested).tables == {"record": {"hz": 50}}
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.gputel.record]\nhz = 200\n")
    place = str(tmp_path / "a" / "pyproject.toml")
    assert settings.from_folder(nested) == (place, {"record": {"hz": 200}}, (), False)


def test_settings_that_are_not_toml_are_named(tmp_path: Path) -> None:
    (tmp_path / "gputel.toml").write_text("hz: 100")
    with pytest.raises(GputelError, match=r"gputel\.toml: is not TOML"):
        settings.from_folder(tmp_path)


def test_settings_in_a_folder_that_any_user_may_write_to_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "gputel.toml").write_text("[record]\nhz = 50\n")
    tmp_path.chmod(0o1777)
    file = settings.from_folder(tmp_path)
    assert file.tables == {}
    assert file.unread[0] == (
        f"{tmp_path}/gputel.toml: it or its folder can be written by any user; its settings are ignored"
    )


def test_settings_of_another_user_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gputel.toml").write_text("[record]\nhz = 50\n")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    if os.geteuid() == 0:
        os.chown(tmp_path / "gputel.toml", 4321, 4321)
        os.chown(tmp_path / "pyproject.toml", 4321, 4321)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4321)
    file = settings.from_folder(tmp_path)
    assert file.tables == {}
    assert file.unread == (f"{tmp_path}/gputel.toml: belongs to another user; its settings are ignored",)


def test_users_own_settings_are_found_where_xdg_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert settings.from_user() == (str(tmp_path / "gputel" / "config.toml"), {}, (), True)
    (tmp_path / "gputel").mkdir()
    (tmp_path / "gputel" / "config.toml").write_text("[tail]\non-alarm = 'true'\n")
    assert settings.from_user().tables == {"tail": {"on-alarm": "true"}}


def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that is neither below the home nor in a repository."""
    project = tmp_path / "scratch" / "project"
    project.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (project / "gputel.toml").write_text("[record]\nhz = 50\n")
    return project


def test_settings_outside_home_count_in_a_repository_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = outside(tmp_path, monkeypatch)
    file = settings.from_folder(project)
    assert file.tables == {}
    assert file.unread == (
        f"{project}/gputel.toml: lies neither below your home nor in the repository around this folder; "
        f"its settings are ignored; allow them with 'gputel trust {project}/gputel.toml'",
    )
    (project / ".git").mkdir()
    assert settings.from_folder(project).tables == {"record": {"hz": 50}}


def test_settings_above_the_repository_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = outside(tmp_path, monkeypatch)
    repository = project / "repository"
    (repository / ".git").mkdir(parents=True)
    assert settings.from_folder(repository).tables == {}


def test_settings_that_were_trusted_count_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = outside(tmp_path, monkeypatch)
    path = project / "gputel.toml"
    settings.trust(path, settings.one_file(path))
    file = settings.from_folder(project)
    assert (file.tables, file.is_trusted) == ({"record": {"hz": 50}}, True)


def test_settings_below_a_folder_that_any_user_may_rename_do_not_count(tmp_path: Path) -> None:
    project = tmp_path / "open" / "project"
    project.mkdir(parents=True)
    (project / "gputel.toml").write_text("[record]\nhz = 50\n")
    (tmp_path / "open").chmod(0o777)
    file = settings.from_folder(project)
    assert (file.tables, len(file.unread)) == ({}, 1)
    assert f"{tmp_path}/open above it can be written by any user" in file.unread[0]
    (tmp_path / "open").chmod(0o1777)
    assert settings.from_folder(project).tables == {"record": {"hz": 50}}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("tool.gputel = " + "[" * 100_000, "is nested too deeply"),
        ("tool.gputel" + ".a" * 600 + " = 1", "has a key of hundreds of dots"),
        ("[tool]\ngputel = 3\n", r"'tool\.gputel' is not a table"),
    ],
)
def test_settings_of_odd_shapes_end_in_one_line(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(GputelError, match=fault):
        settings.from_folder(tmp_path)


@pytest.mark.parametrize(("name", "notes"), [("gputel.toml", 1), ("pyproject.toml", 0)])
def test_settings_larger_than_people_write_are_ignored(tmp_path: Path, name: str, notes: int) -> None:
    (tmp_path / name).write_text("#" * settings.LARGEST + "\n[record]\nhz = 5\n")
    found = settings.from_folder(tmp_path)
    assert found.tables == {}
    lines = [
        line for line in found.unread if "is larger than 262,144 bytes; its settings are ignored" in line
    ]
    assert len(lines) == notes


def test_project_without_a_table_of_tools_has_no_settings(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("tool = 3\n")
    assert settings.from_folder(tmp_path).tables == {}
