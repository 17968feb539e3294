"""Settings files: the user's own config.toml, and a folder's gputel.toml or [tool.gputel] in pyproject.toml.

The folder's file is the nearest one from the working folder upwards. A file that another user could have written
is ignored, with a line that says so. The commands decide which settings a folder's file may change.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Any, NamedTuple

from gputel.telemetry.errors import GputelError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER_FILES = ("gputel.toml", "pyproject.toml")


class Settings(NamedTuple):
    """One table per command; `unread` explains each file that was ignored, one line per file."""

    place: str
    tables: dict[str, Any]
    unread: tuple[str, ...] = ()


def from_folder(folder: Path) -> Settings:
    """Settings from the nearest file, from `folder` upwards."""
    unread: list[str] = []
    for path in (home / name for home in (folder, *folder.parents) for name in FOLDER_FILES):
        tables = _trusted(path, unread)
        if tables is not None and path.name == "pyproject.toml":
            tables = tables.get("tool", {}).get("gputel")
        if tables is not None:
            return Settings(str(path), tables, tuple(unread))
    return Settings(FOLDER_FILES[0], {}, tuple(unread))


def from_user() -> Settings:
    """Settings from the user's own file, which may set everything."""
    unread: list[str] = []
    tables = _trusted(user_file(), unread)
    return Settings(str(user_file()), tables or {}, tuple(unread))


def user_file() -> Path:
    """`gputel/config.toml` under XDG_CONFIG_HOME, or under ~/.config if that is not an absolute path."""
    home = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return (home if home.is_absolute() else Path("~/.config").expanduser()) / "gputel" / "config.toml"


def _trusted(path: Path, unread: list[str]) -> dict[str, Any] | None:
    """The file's tables; None if it does not exist or another user could have written it."""
    try:
        if not path.is_file():
            return None
        risk, text = _risk(path), path.read_bytes()
    except OSError as error:
        unread.append(f"{path}: cannot be read ({error.strerror}); its settings are ignored")
        return None
    if risk is None:
        return _parsed(path, text)
    if path.name != "pyproject.toml" or b"gputel" in text:
        unread.append(f"{path}: {risk}; its settings are ignored")
    return None


def _risk(path: Path) -> str | None:
    """How a user other than this one and root could have written the file; None if none could."""
    file = path.stat()
    if file.st_uid not in (0, os.geteuid()):
        return "belongs to another user"
    if (file.st_mode | path.parent.stat().st_mode) & stat.S_IWOTH:
        return "it or its folder can be written by any user"
    return None


def _parsed(path: Path, text: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise GputelError(str(path), f"is not TOML ({error})", "correct that line", exit_code=2) from None
