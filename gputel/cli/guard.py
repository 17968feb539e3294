"""The options of `gputel record` for the process that guards the run: stop, budget, what runs afterwards."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gputel.cli import defaults, options
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.live.instructions import Instructions

guard_options = options.together(
    click.option("--stop-on", metavar="RULES", help="Stop on these alarms: nan,overfit,stalled."),
    click.option(
        "--stop-after",
        type=options.hours,
        metavar="31h",
        help="Stop the command after this time.",
    ),
    options.budget("Stop the command when this much is spent; needs --price."),
    options.price,
    click.option(
        "--grace",
        type=options.duration,
        default="10m",
        show_default=True,
        metavar="10m",
        help="Time to exit before a kill.",
    ),
    click.option("--then", metavar="COMMAND", help="Run this when the recording has ended."),
    click.option("--prometheus", metavar="[HOST]:PORT", help="Serve the run to Prometheus."),
)


def instructions(asked: Mapping[str, Any], *, has_command: bool) -> Instructions | None:
    """Returns None if no option was given. An option that cannot work fails before the command runs."""
    stops = [asked[name] for name in ("stop_on", "stop_after", "budget")]
    if not any((*stops, asked["then"], asked["prometheus"], asked["push"])):
        return None
    if any(stops) and not has_command:
        raise click.UsageError("--stop-on, --stop-after and --budget stop a command, and there is none")
    if asked["budget"] is not None and asked["price"] is None:
        raise click.UsageError("--budget needs --price, the price of a GPU hour")
    from gputel.analysis.live.instructions import Instructions

    if asked["prometheus"] is not None:
        from gputel.analysis.live import prometheus

        prometheus.check(asked["prometheus"])
    return Instructions(
        stop_on=_rules(asked["stop_on"] or ""),
        stop_after_s=asked["stop_after"] and 3600 * asked["stop_after"],
        budget=asked["budget"],
        price=asked["price"],
        grace_s=asked["grace"],
        then=_words(asked["then"] or ""),
        prometheus=asked["prometheus"],
        pushes=bool(asked["push"]),
        alarms=defaults.alarms(),
    )


def beside(asked: Instructions, run: Path, segment: Path) -> Callable[[int], Sequence[str]]:
    """Returns a function from the command's process number to the arguments that start the guard."""
    placed = replace(asked, run=str(run.resolve()), segment=str(segment.resolve()), recorder=os.getpid())
    return lambda command: replace(placed, command=command).as_argv()


def watching(segment: Path, folder: Path) -> Callable[[int], Sequence[str]]:
    """Returns the same for the watcher, which looks into the command after the silence of the alarm `stalled`."""
    from gputel.analysis.alarms import rules
    from gputel.analysis.incidents.instructions import Silence, WatchOrder

    stalled = next((rule.thresholds for rule in rules.load((), _stalled()) if rule.name == "stalled"), {})
    limits = {name: value for name, value in stalled.items() if name in Silence.__dataclass_fields__}
    order = WatchOrder(str(segment.resolve()), str(folder), os.getpid(), silence=Silence(**limits))
    return lambda command: replace(order, command=command).as_argv()


def _stalled() -> dict[str, dict[str, Any]]:
    return {name: facts for name, facts in defaults.alarms().items() if name == "stalled"}


def _rules(text: str) -> list[str]:
    from gputel.analysis.alarms import rules

    chosen = [word.strip() for word in text.split(",") if word.strip()]
    names = rules.names()
    for word in chosen:
        if word not in names:
            raise GputelError(
                f"--stop-on {word}", "no such alarm", f"the alarms are: {', '.join(names)}", exit_code=2
            )
    return chosen


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise GputelError("--then", str(error).lower(), "close the quotes", exit_code=2) from None
