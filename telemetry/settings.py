"""Settings files: the user's own config.toml, and a folder's gputel.toml or [tool.gputel] in pyproject.toml.

The folder's file is the nearest one from the working folder upwards. It counts below the user's home, in the
repository around the working folder, or once the user has trusted it (`gputel trust`): trust holds for a path and
its settings, and ends when either changes. A file that another user could have written is ignored. The commands
decide which settings a file that is not trusted may change. `unread` names each file that was ignored.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gputel.telemetry.errors import GputelError, reason
from gputel.telemetry.user_folders import user_folder

LARGEST = 1 << 18  # bytes
MOST_DOTS = 500  # between words of one line
FOLDER_FILES = ("gputel.toml", "pyproject.toml")


class Settings(NamedTuple):
    """One table per command; `unread` explains each file that was ignored, one line per file."""

    place: str
    tables: dict[str, Any]
    unread: tuple[str, ...] = ()
    is_trusted: bool = False


def from_folder(folder: Path) -> Settings:
    """Settings from the nearest file, from `folder` upwards."""
    unread: list[str] = []
    for path in (home / name for home in (folder, *folder.parents) for name in FOLDER_FILES):
        tables = _unspoiled(path, unread)
        if tables is None:
            continue
        if is_trusted(path, tables):
            return Settings(str(path), tables, tuple(unread), is_trusted=True)
        if _is_at_home(path, folder):
            return Settings(str(path), tables, tuple(unread))
        where = "lies neither below your home nor in the repository around this folder"
        unread.append(f"{path}: {where}; its settings are ignored; allow them with 'gputel trust {path}'")
    return Settings(FOLDER_FILES[0], {}, tuple(unread))


def from_user() -> Settings:
    """Settings from the user's own file, which may set everything."""
    unread: list[str] = []
    tables = _unspoiled(user_file(), unread)
    return Settings(str(user_file()), tables or {}, tuple(unread), is_trusted=True)


def one_file(path: Path) -> dict[str, Any]:
    """The settings in one file, for its user to trust. A file that another user could have written is an error."""
    unread: list[str] = []
    tables = _unspoiled(path, unread)
    if unread:
        raise GputelError(unread[0], "such a file cannot be trusted", "copy it to a folder of your own")
    if tables is None:
        raise GputelError(str(path), "holds no settings", f"name a {FOLDER_FILES[0]}")
    return tables


def nearest_file(folder: Path) -> Path | None:
    """The nearest file that holds settings, from `folder` upwards, whether it counts or not."""
    paths = (home / name for home in (folder, *folder.parents) for name in FOLDER_FILES)
    return next((path for path in paths if _unspoiled(path, []) is not None), None)


def is_trusted(path: Path, tables: Mapping[str, Any]) -> bool:
    """Whether the user has trusted this file with just these settings."""
    return _record(path, tables).is_file()


def trust(path: Path, tables: Mapping[str, Any]) -> None:
    from gputel.telemetry.whole_files import write_whole

    record = _record(path, tables)
    record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(record, f"{path.resolve()}\n".encode(errors="surrogateescape"))


def distrust(path: Path, tables: Mapping[str, Any]) -> bool:
    """Ends the trust in a file; False if it had none."""
    trusted = is_trusted(path, tables)
    _record(path, tables).unlink(missing_ok=True)
    return trusted


def _record(path: Path, tables: Mapping[str, Any]) -> Path:
    """The file whose existence is the trust: its name is the hash of the path and the settings."""
    import hashlib
    import json

    content = json.dumps([str(path.resolve()), tables], sort_keys=True, default=str)
    return user_folder("STATE") / "trusted" / hashlib.sha256(content.encode(errors="replace")).hexdigest()


def _is_at_home(path: Path, folder: Path) -> bool:
    """Whether the file lies below the user's home or in the repository that `folder` lies in."""
    place = path.resolve().parent
    repositories = (each for each in (folder, *folder.parents) if (each / ".git").exists())
    roots = [Path.home(), *list(repositories)[:1]]
    return any(place.is_relative_to(root.resolve()) for root in roots)


def user_file() -> Path:
    """The user's own settings: `gputel/config.toml`."""
    return user_folder("CONFIG") / "config.toml"


def _unspoiled(path: Path, unread: list[str]) -> dict[str, Any] | None:
    """The file's settings; None if it holds none or another user could have written it."""
    try:
        if not path.is_file():
            return None
        risk, text = _risk(path), beginning(path)
    except OSError as error:
        unread.append(f"{path}: cannot be read ({reason(error)}); its settings are ignored")
        return None
    is_project = path.name == "pyproject.toml"
    if is_project and b"gputel" not in text:
        return None
    if risk is not None or len(text) > LARGEST:
        unread.append(f"{path}: {risk or too_dear(text)}; its settings are ignored")
        return None
    tables = _parsed(path, text)
    return _tool_table(path, tables) if is_project else tables


def _risk(path: Path) -> str | None:
    """How a user other than this one and root could have written the file; None if none could."""
    file = path.stat()
    if file.st_uid not in (0, os.geteuid()):
        return "belongs to another user"
    if (file.st_mode | path.parent.stat().st_mode) & stat.S_IWOTH:
        return "it or its folder can be written by any user"
    for folder in path.resolve().parents:
        mode = folder.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:  # a sticky folder's entries stay their owners'
            return f"{folder} above it can be written by any user"
    return None


def _tool_table(path: Path, tables: Mapping[str, Any]) -> dict[str, Any] | None:
    """[tool.gputel] of a pyproject.toml; None if it has none."""
    tools = tables.get("tool")
    own = tools.get("gputel") if isinstance(tools, dict) else None
    if own is None or isinstance(own, dict):
        return own
    raise GputelError(str(path), "'tool.gputel' is not a table", "write [tool.gputel]", exit_code=2)


def beginning(path: Path) -> bytes:
    """The file, or so much of it that `too_dear` names it: it may be a device without an end."""
    with path.open("rb") as file:
        return file.read(LARGEST + 1)


def too_dear(text: bytes) -> str | None:
    """Why parsing this TOML could take minutes; None for what people write.

    The time that a key takes grows with the cube of its dots: 32 kB took half a minute.
    """
    if len(text) > LARGEST:
        return f"is larger than {LARGEST:,} bytes"
    lines = (line.split(b".") for line in text.split(b"\n") if line.count(b".") > MOST_DOTS)
    # A row of dots in a comment is no key.
    has_dots = any(sum(map(bool, words)) > MOST_DOTS for words in lines)
    return "has a key of hundreds of dots" if has_dots else None


def _parsed(path: Path, text: bytes) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib  # novm: guarded, inside a function, as few calls read settings
    else:
        import tomli as tomllib

    if fault := too_dear(text):
        raise GputelError(str(path), fault, "write plain tables", exit_code=2)
    try:
        return tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise GputelError(str(path), f"is not TOML ({error})", "correct that line", exit_code=2) from None
    except RecursionError:
        raise GputelError(str(path), "is nested too deeply", "write plain tables", exit_code=2) from None
