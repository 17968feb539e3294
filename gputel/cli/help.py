"""What `--help` prints: the commands in the order in which people meet them, examples, and options in groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import click

COMMANDS: Mapping[str, str] = {
    "record": "Sample the GPUs, alone or beside a command, into a run folder.",
    "parse": "Turn training logs of any framework into tables.",
    "tail": "Follow runs as they happen, with alarms.",
    "report": "Show where a run's time and energy went, and what held it up.",
    "compare": "Compare runs at equal steps, tokens, time or cost.",
    "runs": "List runs of any tool in one table, and ask questions about them.",
    "gate": "Check whether a run got worse than its baseline, for CI.",
    "plan": "Estimate what a run will take: memory, time, money, energy.",
    "info": "Show what a run folder holds.",
    "nodes": "List the nodes of a run, and how far their clocks are apart.",
    "export": "Write a run's GPU telemetry as one wide table.",
    "sync": "Send a run to object storage, from where every command reads it.",
    "share": "Send a run's page to object storage, with a link.",
    "stacks": "Show the line that each rank of a running training is in.",
    "mark": "Write a mark into the run that is being recorded.",
    "formats": "List the log formats, or check one on its own samples.",
    "doctor": "Check what keeps this machine from recording well, and how to fix it.",
    "demo": "In one minute: two small trainings, recorded and compared.",
    "settings": "Print every setting, its value and where it comes from.",
    "trust": "Let a folder's settings file set everything, as it is now.",
}
FIRST_STEPS = (
    ("record a training", "gputel record -- torchrun --nproc_per_node=8 train.py"),
    ("follow it", "gputel tail latest"),
    ("see what held it up", "gputel report latest"),
    ("compare runs, or logs", "gputel compare runs/d16 runs/d24 --price 4"),
    ("plan the next one", "gputel plan --depth 24 --on 8xH100"),
)
EXAMPLES = ("gputel demo", "gputel record -- python train.py", "gputel report train.log --html")
WIDEST = 100  # columns, beyond which a line is hard to read
NAMES_WIDTH = 28  # columns of the names of options; what is longer has a line of its own
ALWAYS = ("verbose", "help")  # the last rows of every help

Row: TypeAlias = "str | tuple[str, str]"
"""An option by its long name; or several with one sentence about all of them."""
Groups: TypeAlias = "Mapping[str, Sequence[Row]]"


class Command(click.Command):
    """A command whose help begins with examples and lists its options under headings.

    Each has `--verbose`, which names the settings files in effect before the command runs.
    """

    def __init__(
        self, *args: Any, examples: Sequence[str] = (), groups: Groups | None = None, **more: Any
    ) -> None:
        super().__init__(*args, **more)
        self.examples = examples
        self.groups = groups or {}
        self._takes_verbose = any(option.name == "verbose" for option in self.params)
        if not self._takes_verbose:
            about = "Name the settings files in effect."
            self.params.append(click.Option(["--verbose"], is_flag=True, help=about))

    def invoke(self, ctx: click.Context) -> Any:
        from gputel.cli import defaults

        defaults.announce(ctx, verbose=ctx.params["verbose"])
        if not self._takes_verbose:
            del ctx.params["verbose"]
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(self.examples, formatter)
        options = {
            max(option.opts, key=len).lstrip("-"): option
            for option in self.get_params(ctx)
            if isinstance(option, click.Option)
        }
        grouped = {name for rows in self.groups.values() for row in rows for name in _names(row)}
        rest = [name for name in options if name not in grouped and name not in ALWAYS]
        groups = {**self.groups, **({"Options": rest} if rest or not self.groups else {})}
        last = list(groups)[-1]
        always = [name for name in ALWAYS if name not in grouped]
        for title, rows in groups.items():
            with formatter.section(title):
                listed = [*rows, *always] if title == last else rows
                formatter.write_dl([_line(row, options, ctx) for row in listed], col_max=NAMES_WIDTH)


def write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    """Writes each example in one line, so that it can be copied."""
    if examples:
        with formatter.section("Examples"):
            for example in examples:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")


def first_steps() -> Iterator[str]:
    """Yields what `gputel` alone prints: five things that people do, each with the command that does it."""
    wide = max(len(what) for what, _ in FIRST_STEPS)
    yield "A flight recorder for training runs. What people do with it:"
    yield ""
    yield from (f"  {what:<{wide}}  {command}" for what, command in FIRST_STEPS)
    yield ""
    yield "'gputel demo' shows all of it in a minute; 'gputel --help' lists every command."


def _names(row: Row) -> list[str]:
    return [row] if isinstance(row, str) else row[0].split()


def _line(row: Row, options: Mapping[str, click.Option], ctx: click.Context) -> tuple[str, str]:
    """The names of one or several options, and what they do."""
    if isinstance(row, str):
        return _record(options[row], ctx)[0], _about(options[row], ctx)
    return " ".join(_record(options[name], ctx)[0] for name in row[0].split()), row[1]


def _record(option: click.Option, ctx: click.Context) -> tuple[str, str]:
    return option.get_help_record(ctx) or ("", "")


def _about(option: click.Option, ctx: click.Context) -> str:
    """Its help and its default; a limit of its value is named by the error alone."""
    default = option.get_help_extra(ctx).get("default")
    return f"{option.help or ''}  [default: {default}]" if default else option.help or ""
