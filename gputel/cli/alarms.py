"""The options for alarms: limits, presets, and where alarms are sent."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from gputel.cli import defaults, options

if TYPE_CHECKING:
    from gputel.analysis.alarms.rules import Rule
    from gputel.analysis.live.notify import Notifier
    from gputel.analysis.live.prometheus import Exporter

alarm_options = options.together(
    options.price,
    click.option(
        "--gpus", type=click.IntRange(1), metavar="N", help="GPUs of a run that does not name them."
    ),
    options.budget("Alarm above this cost; needs --price."),
    click.option(
        "--hours",
        type=options.hours,
        metavar="31h",
        help="Alarm above this duration; 'record --stop-after' stops the run instead.",
    ),
    click.option(
        "--preset",
        "presets",
        multiple=True,
        metavar="rented",
        help="Add stricter rules for rented machines.",
    ),
    click.option(
        "--on-alarm",
        metavar="COMMAND",
        help="Run this at each alarm, with {rule} {run} {state} {step} {text} filled in.",
    ),
    click.option("--webhook", "webhooks", multiple=True, metavar="URL", help="Post each alarm to this URL."),
    click.option(
        "--notify", "addresses", multiple=True, metavar="URL", help="Send alarms to an apprise address."
    ),
    click.option("--bell", is_flag=True, help="Ring the terminal's bell at each alarm."),
    click.option("--exit-on-alarm", is_flag=True, help="Exit with code 4 at the first alarm."),
    click.option("--prometheus", metavar="[HOST]:PORT", help="Serve the runs to Prometheus."),
)


def check(asked: Mapping[str, Any]) -> None:
    if asked["budget"] is not None and asked["price"] is None:
        raise click.UsageError("--budget needs --price, the price of a GPU hour")


def wanted(asked: Mapping[str, Any]) -> list[Rule]:
    """Loads the rules; limits on the command line override those of the settings."""
    from gputel.analysis.alarms import rules

    thresholds = defaults.alarms()
    limits = {"hours": asked["hours"], "dollars": asked["budget"]}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    names = {rule.name for rule in rules.load(asked["presets"])}
    thresholds = {name: facts for name, facts in thresholds.items() if name in names}
    budget = {**thresholds.get("budget", {}), **given}
    return rules.load(asked["presets"], {**thresholds, "budget": budget})


@contextlib.contextmanager
def notifier(asked: Mapping[str, Any], on_trouble: Callable[[str], None]) -> Iterator[Notifier | None]:
    """Opens the notifier; None if no channel was given."""
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
    """Opens the Prometheus endpoint; None if no address was given."""
    if address is None:
        yield None
        return
    from gputel.analysis.live import prometheus

    with contextlib.closing(prometheus.Exporter(address)) as opened:
        yield opened
