"""Settings files: which one counts, and which are ignored."""

import os
from pathlib import Path

import pytest

from gputel.telemetry import settings
from gputel.telemetry.errors import GputelError


def test_nearest_settings_upwards_count(tmp_path: Path) -> None:
    (tmp_path / "gputel.toml").write_text("[record]\nhz = 50\n")
    nested = tmp_path / "a" / "b"
    nested.mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert settings.from_folder(nested).tables == {"record": {"hz": 50}}
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.gputel.record]\nhz = 200\n")
    place = str(tmp_path / "a" / "pyproject.toml")
    assert settings.from_folder(nested) == (place, {"record": {"hz": 200}}, ())


def test_settings_that_are_not_toml_are_named(tmp_path: Path) -> None:
    (tmp_path / "gputel.toml").write_text("hz: 100")
    with pytest.raises(GputelError, match=r"gputel\.toml: is not TOML"):
        settings.from_folder(tmp_path)


def test_settings_in_a_folder_that_any_user_may_write_to_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "gputel.toml").write_text("[record]\nhz = 50\n")
    tmp_path.chmod(0o1777)
    found = settings.from_folder(tmp_path)
    assert found.tables == {}
    assert found.unread[0] == (
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
    found = settings.from_folder(tmp_path)
    assert found.tables == {}
    assert found.unread == (f"{tmp_path}/gputel.toml: belongs to another user; its settings are ignored",)


def test_users_own_settings_are_found_where_xdg_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert settings.from_user() == (str(tmp_path / "gputel" / "config.toml"), {}, ())
    (tmp_path / "gputel").mkdir()
    (tmp_path / "gputel" / "config.toml").write_text("[tail]\non-alarm = 'true'\n")
    assert settings.from_user().tables == {"tail": {"on-alarm": "true"}}
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert settings.user_file() == Path.home() / ".config" / "gputel" / "config.toml"
