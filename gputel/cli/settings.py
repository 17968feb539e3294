"""`gputel settings [COMMAND]`"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gputel.cli import options, show
from gputel.cli.help import COMMANDS, Command

if TYPE_CHECKING:
    from gputel.cli.defaults import Default

Row = tuple[str, str, "str | None", str]  # command, option, value, origin

EXAMPLES = (
    "gputel settings record",
    "gputel settings --json",
)


@click.command("settings", cls=Command, examples=EXAMPLES)
@click.argument("name", required=False, metavar="[COMMAND]", type=click.Choice(COMMANDS))
@options.json
def command(name: str | None, as_json: bool) -> None:
    """Print every setting of every command, or of one: its value, and the variable or file that sets it.

    A flag on the command line overrides all of them.
    """
    from gputel.analysis.document import Document, Section, Table
    from gputel.telemetry import settings

    rows = [row for each in ([name] if name else COMMANDS) for row in _rows(each)] + _alarms()
    if as_json:
        keys = ("command", "option", "value", "origin")
        show.as_json({"schema": 1, "settings": [dict(zip(keys, row, strict=True)) for row in rows]})
        return
    file = settings.from_folder(Path.cwd())
    note = f"the folder's file: {file.place if file.tables else 'none'}; yours: {settings.user_file()}"
    cells = [(f"[{row[0]}] {row[1]}", row[2], row[3]) for row in rows]
    table = Table("", ("setting", "value", "origin"), cells, note)
    show.document(Document("Settings", [Section(items=[table])]))


def _rows(name: str) -> Iterator[Row]:
    from gputel.cli import defaults, group

    loaded = group.get_command(click.get_current_context(), name)
    assert loaded is not None
    chosen = defaults.options(name, loaded)
    for option in loaded.params:
        if isinstance(option, click.Option):
            yield (name, option.opts[0].lstrip("-"), *_value(option, chosen.get(str(option.name))))


def _value(option: click.Option, default: Default | None) -> tuple[str | None, str]:
    """The value as it would be typed, with secrets masked, and its origin."""
    from gputel.telemetry.secrets import mask_value

    variable = str(option.envvar)
    if variable in os.environ:
        return mask_value(variable, os.environ[variable]), variable
    if default is not None:
        return mask_value(variable, _typed(default.value) or ""), default.place
    value = option.to_info_dict().get("default")
    return _typed(bool(value) if option.is_flag else value), "default"


def _typed(value: Any) -> str | None:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or None
    if value is None or isinstance(value, bool):
        return None if value is None else str(value).lower()
    return str(value)


def _alarms() -> list[Row]:
    """The thresholds that files set; `docs/tail.md` lists the others."""
    from gputel.cli import defaults

    return [(f"alarms.{rule}", key, str(value), place) for rule, key, value, place in defaults.thresholds()]
