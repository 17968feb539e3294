"""The flags by which commands write pages and pictures, and what they say when they have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gputel.cli import show

if TYPE_CHECKING:
    from gputel.analysis.figures.panel import Page

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


def checked(flags: Mapping[str, Any], out: Path, name: str, *, force: bool = False) -> list[str]:
    """What was asked for; what could not be written is refused here, before anything is read or printed."""
    kinds = asked(flags)
    if kinds:
        from gputel.analysis.render import writing

        writing.check(kinds, out, name, force=force)
    return kinds


def write(page: Page, kinds: list[str], out: Path, name: str, *, force: bool = False) -> None:
    from gputel.analysis.render import writing

    for path in writing.write(page, kinds, out, name, force=force):
        show.note(f"wrote {path}")
