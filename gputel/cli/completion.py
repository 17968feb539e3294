"""What a shell offers behind `<Tab>`: the values of options and arguments. Faults offer nothing."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

import click
from click.shell_completion import CompletionItem, FishComplete, add_completion_class

from gputel.telemetry.errors import GputelError

Items: TypeAlias = "list[CompletionItem]"
PLAIN = re.compile(r"[\w.,/@:+=-]+")
"""The names that are offered: bash puts others into the command line as they are, and would run `$(...)` in one."""
AT_EACH_COMMA, AT_THE_FIRST = 'string split ","', 'string split -m 1 ","'


class FishWithCommas(FishComplete):
    """Offers values that hold commas: click's own script for fish cuts `nan,stalled` at the comma."""

    source_template = FishComplete.source_template.replace(AT_EACH_COMMA, AT_THE_FIRST)


def register() -> None:
    """Adds our shells to those of click, before it answers one."""
    add_completion_class(FishWithCommas)


def runs(_context: click.Context, _option: click.Parameter, begun: str) -> Items:
    """`latest`, the recordings under runs/, and files.

    Files and recordings are not mixed once a name is begun: zsh would cut `runs/` back to `runs`, which both share.
    """
    from gputel.telemetry import run_folder
    from gputel.telemetry.file_names import natural_order

    folders: list[str] = []
    with contextlib.suppress(OSError):
        named = [path for path in Path("runs").iterdir() if PLAIN.fullmatch(path.name)]
        folders = [str(path) for path in named if run_folder.is_run(path)]
    recordings = list(_matching(sorted(folders, key=natural_order), begun))
    if recordings and begun.startswith("runs/"):
        return recordings
    files = CompletionItem(begun, type="file")
    return [files, *_matching(["latest"], begun), *(recordings if not begun else ())]


def formats(_context: click.Context, _option: click.Parameter, begun: str) -> Items:
    """The shipped log formats, and files, as a format may be one's own."""
    from gputel.analysis.logs import formats as known

    return [
        CompletionItem(begun, type="file"),
        *_matching((each.name for each in known.shipped()), begun),
    ]


def alarm_rules(_context: click.Context, _option: click.Parameter, begun: str) -> Items:
    """Rules of alarms, of which several stand in one value: `nan,stal` becomes `nan,stalled`."""
    from gputel.analysis.alarms import rules

    before, comma, last = begun.rpartition(",")
    with contextlib.suppress(GputelError):
        return [CompletionItem(before + comma + name) for name in rules.names() if name.startswith(last)]
    return []


def gpus(_context: click.Context, _option: click.Parameter, begun: str) -> Items:
    """GPUs of the table, after their number: `8xH1` becomes `8xH100`."""
    from gputel.trainer.gpus import gpus as table

    return _behind_number((gpu.name for gpu in table()), begun)


def simulated_gpus(_context: click.Context, _option: click.Parameter, begun: str) -> Items:
    """GPUs that can be simulated."""
    from gputel.telemetry.simulated import KINDS

    return _behind_number(KINDS, begun)


def _behind_number(names: Iterable[str], begun: str) -> Items:
    number, by, start = begun.rpartition("x")
    return [CompletionItem(f"{number}{by}{name}") for name in names if name.lower().startswith(start.lower())]


def _matching(words: Iterable[str], begun: str) -> Iterator[CompletionItem]:
    return (CompletionItem(word) for word in words if word.startswith(begun))


VALUES = {
    "RUN": runs,
    "RUNS": runs,
    "PATH": runs,
    "NAME|FILE": formats,
    "RULES": alarm_rules,
    "NxGPU": gpus,
    "2xH100": simulated_gpus,
}
"""What is offered, by the name of the value in the help; click itself completes paths and choices."""


def attach(command: click.Command) -> None:
    """Gives each option and argument of a command its values."""
    for parameter in command.params:
        offer = VALUES.get((parameter.metavar or str(parameter.name).upper()).strip("[]."))
        if offer and not isinstance(parameter.type, (click.Path, click.Choice)):
            parameter._custom_shell_complete = offer
