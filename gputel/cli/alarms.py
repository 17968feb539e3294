"""What a command line says of alarms: which rules there are, what is allowed, and who is told."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gputel.cli import defaults

if TYPE_CHECKING:
    from gputel.analysis.alarms.rules import Rule
    from gputel.analysis.live.notify import Notifier
    from gputel.analysis.live.prometheus import Exporter

Command = TypeVar("Command", bound=Callable[..., Any])
OPTIONS = (
    click.option("--price", type=float, metavar="MONEY", help="What a GPU costs an hour."),
    click.option("--budget", type=float, metavar="MONEY", help="What the run may cost; needs --price."),
    click.option("--hours", type=float, metavar="HOURS", help="How long the run may take."),
    click.option(
        "--preset",
        "presets",
        multiple=True,
        metavar="rented",
        help="Stricter rules, for a machine that is paid by the hour.",
    ),
    click.option(
        "--on-alarm",
        metavar="COMMAND",
        help="Run this at each alarm, with {rule} {run} {state} {step} {text} filled in.",
    ),
    click.option("--webhook", "webhooks", multiple=True, metavar="URL", help="Post each alarm there."),
    click.option("--notify", "addresses", multiple=True, metavar="URL", help="Tell an apprise address."),
    click.option("--bell", is_flag=True, help="Ring the terminal's bell at each alarm."),
    click.option("--exit-on-alarm", is_flag=True, help="End with 4 at the first alarm."),
    click.option("--prometheus", metavar="[HOST]:PORT", help="Serve the runs to Prometheus."),
)


def options(command: Command) -> Command:
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def check(asked: Mapping[str, Any]) -> None:
    if asked["budget"] is not None and asked["price"] is None:
        raise click.UsageError("--budget needs a --price, what a GPU costs an hour")


def wanted(asked: Mapping[str, Any]) -> list[Rule]:
    """The rules, with what is allowed on the command line in place of the settings'."""
    from gputel.analysis.alarms import rules

    thresholds = defaults.alarms()
    allowed = {"hours": asked["hours"], "dollars": asked["budget"]}
    said = {name: limit for name, limit in allowed.items() if limit is not None}
    known = {rule.name for rule in rules.load(asked["presets"])}
    thresholds = {name: facts for name, facts in thresholds.items() if name in known}
    budget = {**thresholds.get("budget", {}), **said}
    return rules.load(asked["presets"], {**thresholds, "budget": budget})


@contextlib.contextmanager
def notifier(asked: Mapping[str, Any], on_trouble: Callable[[str], None]) -> Iterator[Notifier | None]:
    """None where nobody is to be told."""
    from gputel.analysis.live import notify

    channels: list[notify.Channel] = [notify.NotifyCommand(asked["on_alarm"])] if asked["on_alarm"] else []
    channels += [notify.Webhook(url) for url in asked["webhooks"]]
    channels += [notify.Apprise(url) for url in asked["addresses"]]
    if not channels:
        yield None
        return
    with contextlib.closing(notify.Notifier(channels, on_trouble)) as opened:
        yield opened


@contextlib.contextmanager
def exporter(address: str | None) -> Iterator[Exporter | None]:
    if address is None:
        yield None
        return
    from gputel.analysis.live import prometheus

    with contextlib.closing(prometheus.Exporter(address)) as opened:
        yield opened
