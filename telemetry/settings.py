"""gputel.toml, or [tool.gputel] in pyproject.toml: what a project sets for everybody who works in it.

The nearest of the two from the working folder upwards counts. Flags and GPUTEL_* variables go before it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

from gputel.telemetry.errors import GputelError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Settings(NamedTuple):
    """`tables` has a table a command; `place` names the file for whoever must mend it."""

    place: str
    tables: dict[str, Any]


def load(folder: Path) -> Settings:
    for home in (folder, *folder.parents):
        for name in ("gputel.toml", "pyproject.toml"):
            if (home / name).is_file():
                tables = _read(home / name)
                found = tables if name == "gputel.toml" else tables.get("tool", {}).get("gputel")
                if found is not None:
                    return Settings(str(home / name), found)
    return Settings("gputel.toml", {})


def _read(path: Path) -> dict[str, Any]:
    try:
        tables: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise GputelError(str(path), f"is not TOML ({error})", "mend that line", exit_code=2) from None
    return tables
