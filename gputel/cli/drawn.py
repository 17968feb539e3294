"""The flags by which commands write pages and pictures, and what they say when they have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gputel.cli import show

if TYPE_CHECKING:
    from gputel.analysis.document import Page

Command = TypeVar("Command", bound=Callable[..., Any])
FLAGS = {
    "html": "Write one offline page.",
    "png": "Write the page's panels as pictures.",
    "svg": "The same, as SVG.",
    "pdf": "The same, as PDF.",
}


def options(command: Command) -> Command:
    """`--html --png --svg --pdf`, in this order in the help."""
    for kind, about in reversed(FLAGS.items()):
        command = click.option(f"--{kind}", is_flag=True, help=about)(command)
    return command


def asked(flags: Mapping[str, Any]) -> list[str]:
    return [kind for kind in FLAGS if flags.get(kind)]


def checked(
    flags: Mapping[str, Any], out: Path, name: str, tables: Mapping[str, str], *, force: bool = False
) -> list[str]:
    """Which pages and pictures were asked for; what could not be written is refused before anything is read.

    `tables` are the command's other files: each flag with the ending by which `--out` may name one, or "".
    """
    kinds, others = asked(flags), {flag: ending for flag, ending in tables.items() if flags.get(flag)}
    if kinds or others:
        from gputel.analysis.render import files

        files.check(kinds, out, name, others, force=force)
    elif _was_typed("out"):
        each = ", ".join(f"--{flag}" for flag in (*tables, *FLAGS) if flag in flags)
        raise click.UsageError(f"--out says where to write, and nothing is to be written; add one of {each}")
    return kinds


def _was_typed(option: str) -> bool:
    """And does not come from a setting, which stands there for every call."""
    source = click.get_current_context().get_parameter_source(option)
    return source is click.core.ParameterSource.COMMANDLINE


def write(page: Page, kinds: list[str], out: Path, name: str, *, force: bool = False) -> None:
    from gputel.analysis.render import files

    for path in files.write_page(page, kinds, out, name, force=force):
        show.note(f"wrote {path}")
