"""Defaults from settings files: the user's own file sets anything, a folder's file sets what is harmless.

A folder may have come from anybody, as a download or a clone. So what its file sets never runs, stops, reads or
sends anything beyond what the user typed: no path, command, address, token or process, and a format only if it is
named and shipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import click

from gputel.cli import show
from gputel.telemetry import settings
from gputel.telemetry.errors import GputelError

PICTURES = frozenset("html png svg pdf panel width font style dpi".split())
HARMLESS: Mapping[str, AbstractSet[str]] = {
    "record": PICTURES | {"hz", "max-overhead", "price", "json"},
    "parse": PICTURES | {"format", "csv", "parquet", "json", "rows", "rejects"},
    "tail": {"format", "plain", "json", "price", "gpus", "budget", "hours", "preset", "bell"},
    "report": PICTURES | {"keep-idle", "json"},
    "compare": PICTURES
    | {"by", "metric", "phase", "target", "lower", "higher", "price", "kwh", "smooth", "group"}
    | {"csv", "markdown", "json"},
    "gate": {"max-regress", "target", "lower", "higher", "phase", "warmup", "json"},
    "plan": {"depth", "params", "layers", "dim", "heads", "tied", "vocab", "seq", "on", "nodes", "link"}
    | {"device-batch-size", "total-batch-size", "ratio", "tokens", "hours", "budget", "price"}
    | {"data-tokens", "optimizer", "dtype", "shard", "loss", "recompute", "eager", "plain-attention"}
    | {"save-every", "keep", "target-tok-s", "target-steps-h", "csv", "html", "json"},
    "info": {"json"},
    "export": {"layout"},
    "formats": {"json"},
    "doctor": {"json"},
}
HARMLESS_TEXT_OF_ALARMS = ("metric", "metrics")  # beside every number, true and false


def options(name: str, command: click.Command) -> dict[str, object]:
    """What the settings files set for a command, keyed as click wants it; options are spelled as on the line."""
    folder, user = settings.from_folder(Path.cwd()), settings.from_user()
    for line in (*folder.unread, *user.unread):
        show.note(line)
    return {
        **_options(name, command, folder, HARMLESS.get(name, frozenset())),
        **_options(name, command, user, None),
    }


def alarms() -> dict[str, dict[str, Any]]:
    """The thresholds that the settings files set, by rule; presets' may be set whether asked for or not."""
    folder, user = settings.from_folder(Path.cwd()), settings.from_user()
    of_folder, of_user = _alarms(folder), _alarms(user)
    found = {rule: _harmless_thresholds(folder.place, rule, own) for rule, own in of_folder.items()}
    return {rule: {**found.get(rule, {}), **of_user.get(rule, {})} for rule in {**found, **of_user}}


def _options(
    name: str, command: click.Command, found: settings.Settings, harmless: AbstractSet[str] | None
) -> dict[str, object]:
    """`harmless` are the options that the file may set; None is all of them."""
    spelled = {
        opt.lstrip("-"): param
        for param in command.params
        if isinstance(param, click.Option)
        for opt in param.opts
    }
    chosen: dict[str, object] = {}
    for key, value in _table(found.place, found.tables, name).items():
        word = key.replace("_", "-")
        option = spelled.get(word)
        if option is None or option.name is None:
            hint = f"see 'gputel {name} --help'"
            raise GputelError(found.place, f"'{name}' has no option {key!r}", hint, exit_code=2)
        if harmless is None or (word in harmless and (word != "format" or _is_shipped(value))):
            chosen[option.name] = _typed(found.place, f"[{name}] {word}", value, option)
        else:
            instead = f"use --{word}, {option.envvar} or {settings.user_file()}"
            show.note(
                f"{found.place}: [{name}] {word} is ignored, as a folder's file may not set it; {instead}"
            )
    return chosen


def _alarms(found: settings.Settings) -> dict[str, dict[str, Any]]:
    """The file's thresholds; those that no rule has are refused."""
    from gputel.analysis.alarms import rules

    table = _table(found.place, found.tables, "alarms")
    thresholds = {rule: _table(found.place, table, rule) for rule in table}
    rules.load(rules.presets(), thresholds, found.place)
    return thresholds


def _table(place: str, tables: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = tables.get(name, {})
    if not isinstance(table, dict):
        raise GputelError(place, f"'{name}' is not a table", f"write [{name}]", exit_code=2)
    return table


def _is_shipped(format_name: object) -> bool:
    """Whether it is a format's name, which is never taken for a file."""
    from gputel.analysis.logs import formats

    return format_name in {known.name for known in formats.shipped()}


def _typed(place: str, key: str, value: object, option: click.Option) -> str | list[str]:
    """The value as a person would have typed it; click turns it into what the option wants."""
    values = value if option.multiple and isinstance(value, list) else [value]
    if any(isinstance(one, (dict, list)) for one in values):
        hint = "write one value" + (", or a list of them" if option.multiple else "")
        raise GputelError(place, f"{key} is no value of this option", hint, exit_code=2)
    typed = [str(one).lower() if isinstance(one, bool) else str(one) for one in values]
    return typed if option.multiple else typed[0]


def _harmless_thresholds(place: str, rule: str, thresholds: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers, true and false, and names of metrics: a pattern could hold up whoever judges."""
    kept: dict[str, Any] = {}
    for key, value in thresholds.items():
        if isinstance(value, (int, float)) or key in HARMLESS_TEXT_OF_ALARMS:
            kept[key] = value
        else:
            instead = f"use {settings.user_file()}"
            show.note(
                f"{place}: [alarms.{rule}] {key} is ignored, as a folder's file may not set it; {instead}"
            )
    return kept
