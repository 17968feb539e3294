"""The user's folders: where XDG says, and below the home where it says nothing of use."""

from pathlib import Path

import pytest

from gputel.telemetry.user_folders import OTHERWISE, user_folder
from tests.sources import homes


@pytest.mark.parametrize("purpose", OTHERWISE)
def test_folder_lies_where_xdg_says(purpose: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"XDG_{purpose}_HOME", str(tmp_path))
    assert user_folder(purpose) == tmp_path / "gputel"


@pytest.mark.parametrize("useless", ["", "relative/path"])
def test_folder_lies_below_the_home_where_xdg_has_no_absolute_path(
    useless: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", useless)
    assert user_folder("STATE") == tmp_path / ".local" / "state" / "gputel"


def test_no_other_file_asks_for_the_users_folders() -> None:
    """The trainer stands alone, and keeps its tokens in the cache."""
    assert homes('XDG_CACHE_HOME"') == {"trainer/tokenizer.py"}
    assert homes('XDG_STATE_HOME"') | homes('XDG_CONFIG_HOME"') == set()
