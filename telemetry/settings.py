"""Settings files: the user's own config.toml, and gputel.toml or [tool.gputel] in pyproject.toml of a folder.

Of a folder's files the nearest from the working folder upwards counts. A file that another user could have written
is passed over; what a folder's file may set at all is for the commands to say.
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
    """`tables` has one table per command; `unread` has one line for each file that was passed over."""

    place: str
    tables: dict[str, Any]
    unread: tuple[str, ...] = ()


def from_folder(folder: Path) -> Settings:
    """The nearest file of settings from `folder` upwards."""
    unread: list[str] = []
    for path in (home / name for home in (folder, *folder.parents) for name in FOLDER_FILES):
        found = _trusted(path, unread)
        if found is not None and path.name == "pyproject.toml":
            found = found.get("tool", {}).get("gputel")
        if found is not None:
            return Settings(str(path), found, tuple(unread))
    return Settings(FOLDER_FILES[0], {}, tuple(unread))


def from_user() -> Settings:
    """The user's own file, which may set everything."""
    unread: list[str] = []
    found = _trusted(user_file(), unread)
    return Settings(str(user_file()), found or {}, tuple(unread))


def user_file() -> Path:
    home = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return (home if home.is_absolute() else Path("~/.config").expanduser()) / "gputel" / "config.toml"


def _trusted(path: Path, unread: list[str]) -> dict[str, Any] | None:
    """None where there is no such file, or where another user could have written it."""
    try:
        if not path.is_file():
            return None
        risk, text = _risk(path), path.read_bytes()
    except OSError as error:
        unread.append(f"{path}: cannot be read ({error.strerror}); its settings do not count")
        return None
    if risk is None:
        return _parsed(path, text)
    if path.name != "pyproject.toml" or b"gputel" in text:
        unread.append(f"{path}: {risk}; its settings do not count")
    return None


def _risk(path: Path) -> str | None:
    """How somebody other than our user and root could have written the file."""
    file = path.stat()
    if file.st_uid not in (0, os.geteuid()):
        return "belongs to another user"
    if (file.st_mode | path.parent.stat().st_mode) & stat.S_IWOTH:
        return "can be written, or its folder can, by any user"
    return None


def _parsed(path: Path, text: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise GputelError(str(path), f"is not TOML ({error})", "correct that line", exit_code=2) from None
