"""The commands. Each lives in the file of its name and is imported when it is called."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

import click

from gputel import __version__
from gputel.cli.help import COMMANDS, EXAMPLES, WIDEST, first_steps, write_examples
from gputel.telemetry.errors import DamagedFile, GputelError, reason

COMPLETE = "_GPUTEL_COMPLETE"  # what click's scripts for shells set
# Imports make objects that stay: looking through them 700 by 700 for what can go took a tenth of most commands.
COLLECT_AFTER = (50_000, 20, 20)


class Commands(click.Group):
    """Commands in the order in which people meet them; their defaults come from the settings files."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists every command without importing it."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))
        write_examples(EXAMPLES, formatter)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f"gputel.cli.{name}").command
        command.short_help = COMMANDS[name]
        if ctx and ctx.resilient_parsing:
            from gputel.cli import completion

            completion.attach(command)
        for option in command.params:
            if isinstance(option, click.Option) and option.envvar is None:
                option.envvar = variable(name, option)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            ctx.fail(f"No such command '{args[0]}'{_meant(args[0])}")
        name, command, rest = super().resolve_command(ctx, args)
        if name and command and not ctx.resilient_parsing:
            from gputel.cli import defaults

            chosen = ctx.meta[defaults.META] = defaults.options(name, command)
            ctx.default_map = {name: {option: default.value for option, default in chosen.items()}}
        return name, command, rest


def _meant(word: str) -> str:
    from difflib import get_close_matches

    return "".join(f" (did you mean '{near}'?)" for near in get_close_matches(word, COMMANDS, 1))


def variable(command: str, option: click.Option) -> str:
    """GPUTEL_RECORD_MAX_OVERHEAD for `record --max-overhead`: named after what people type."""
    return f"GPUTEL_{command}_{option.opts[0].lstrip('-')}".upper().replace("-", "_")


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST},
)
@click.version_option(__version__, prog_name="gputel")
@click.pass_context
def group(ctx: click.Context) -> None:
    """A flight recorder for training runs: what the GPUs did, and when each line was printed."""
    if ctx.invoked_subcommand is None:
        click.echo("\n".join(first_steps()), err=True)
        ctx.exit(2)


MOST_ALIKE = 5  # lines about files of one name that are damaged in one way; a folder may hold thousands
_damaged: dict[tuple[str, str], set[str]] = {}  # Python counts "once" for each module that warns


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    *_: object,
    **__: object,
) -> None:
    """Prints a damaged file as one line, once, if few are alike, and any other warning with its place."""
    from gputel.cli import show

    if isinstance(message, DamagedFile):
        from gputel.telemetry.remote.local_copy import shown

        alike = _damaged.setdefault((message.path.name, message.effect), set())
        if str(message) not in alike and len(alike) < MOST_ALIKE:
            show.note(f"warning: {shown(message.path)}: {message.effect} ({message.fault})")
        alike.add(str(message))
    else:
        show.note(f"{filename}:{lineno}: {category.__name__}: {message}")


def _count_unnamed() -> None:
    """Prints how many damaged files were not named, because they are like those that were."""
    from gputel.cli import show

    for (name, effect), alike in _damaged.items():
        if len(alike) > MOST_ALIKE:
            show.note(f"warning: {len(alike) - MOST_ALIKE:,} more files called {name}: {effect}")


def _setter(error: click.ClickException) -> str | None:
    """The settings file that holds a value which its option does not take; None if it was typed."""
    if not isinstance(error, click.BadParameter) or not error.ctx or not error.param or not error.param.name:
        return None
    from gputel.cli import defaults

    chosen = error.ctx.meta.get(defaults.META, {}).get(error.param.name)
    source = error.ctx.get_parameter_source(error.param.name)
    return chosen.place if chosen and source is click.core.ParameterSource.DEFAULT_MAP else None


def prepare_output() -> None:
    """Lets this process print any character, and a damaged file as one line."""
    from gputel.cli import show

    show.write_any_character()
    warnings.simplefilter("once", DamagedFile)
    warnings.showwarning = _show_warning
    _damaged.clear()


def main(args: Sequence[str] | None = None) -> None:
    """The one place where an exception becomes a line and an exit code."""
    gc.set_threshold(*COLLECT_AFTER)
    atexit.register(gc.freeze)  # the interpreter's last search for cycles takes a seventh of a short command
    prepare_output()
    if COMPLETE in os.environ:
        from gputel.cli import completion

        completion.register()
    from gputel.cli import show

    try:
        code = group.main(args, prog_name="gputel", standalone_mode=False)
    except GputelError as error:
        show.error(str(error))
        code = error.exit_code
    except click.ClickException as error:
        path = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "gputel"
        show.error(f"{_setter(error) or path}: {error.format_message().rstrip('.')}; see '{path} --help'")
        code = error.exit_code
    except click.Abort:
        code = 130
    except BrokenPipeError:
        show.stop_writing()
        code = 0
    except OSError as error:
        show.error(f"{error.filename or 'gputel'}: {reason(error)}")
        code = 1
    _count_unnamed()
    sys.exit(code or 0)
