"""Defaults from settings files: the user's own file sets anything, a folder's file sets what is harmless.

A folder may have come from anybody, as a download or a clone. So what its file sets never runs, stops, reads or
sends anything beyond what the user typed: no path, command, address, token or process, and a format only if it is
named and shipped. A file that the user has trusted as it is (`gputel trust`) sets anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import click

from gputel.cli import show
from gputel.telemetry import settings
from gputel.telemetry.errors import GputelError
from gputel.telemetry.user_folders import working_folder

PICTURES = frozenset("html png svg pdf panel width font style dpi".split())
HARMLESS: Mapping[str, AbstractSet[str]] = {
    "record": PICTURES | {"hz", "max-overhead", "no-host", "no-source", "price", "fsync", "json"},
    "parse": PICTURES
    | {"format", "csv", "parquet", "json", "rows", "read", "rejects", "unread", "strict", "verbose"},
    "tail": {"format", "plain", "json", "price", "gpus", "budget", "hours", "preset", "bell"},
    "report": PICTURES | {"keep-idle", "price", "json"},
    "compare": PICTURES
    | {"by", "metric", "phase", "target", "lower", "higher", "price", "kwh", "smooth", "group"}
    | {"csv", "markdown", "json"},
    "runs": {"sort", "columns", "limit", "by", "json", "html"},
    "gate": {"max-regress", "target", "lower", "higher", "phase", "warmup", "json"},
    "plan": {"depth", "params", "layers", "dim", "heads", "tied", "vocab", "seq", "on", "nodes", "link"}
    | {"device-batch-size", "total-batch-size", "ratio", "tokens", "hours", "budget", "price"}
    | {"data-tokens", "optimizer", "dtype", "shard", "loss", "recompute", "eager", "plain-attention"}
    | {"save-every", "keep", "target-tok-s", "target-steps-h", "csv", "html", "json"},
    "info": {"json"},
    "settings": {"json"},
    "export": {"layout", "table"},
    "share": {"dry-run"},
    "stacks": {"rounds", "every", "json"},
    "formats": {"json"},
    "doctor": {"json"},
    "nodes": {"json"},
}
HARMLESS_EVERYWHERE = frozenset({"verbose"})
HARMLESS_TEXT_OF_ALARMS = ("metric", "metrics")  # beside every number, true and false
# named where they count
THRESHOLDS = {
    "gate": {"max-regress", "target", "warmup"},
    "tail": {"budget", "hours"},
}
SAID = "gputel.said"  # where it keeps the lines about ignored files
META = "gputel.defaults"  # where click's context keeps the options that a file has set


class Default(NamedTuple):
    """One option that a settings file sets, as it would be typed; `place` is the file."""

    word: str
    value: str | list[str]
    place: str
    is_folders: bool


def options(name: str, command: click.Command) -> dict[str, Default]:
    """The options that the settings files set for a command, by the name of click's parameter."""
    folder, user = settings.from_folder(working_folder()), settings.from_user()
    _say_once((*folder.unread, *user.unread))
    return {
        **_options(name, command, folder, None if folder.is_trusted else HARMLESS.get(name, frozenset())),
        **_options(name, command, user, None),
    }


def alarms() -> dict[str, dict[str, Any]]:
    """The thresholds that the settings files set, by rule; presets' may be set whether asked for or not.

    Names those of a folder's file, since they change what a reader takes silence for.
    """
    chosen: dict[str, dict[str, Any]] = {}
    folders: dict[str, list[str]] = {}
    for rule, key, value, place in thresholds():
        chosen.setdefault(rule, {})[key] = value
        if place != str(settings.user_file()):
            folders.setdefault(place, []).append(f"{rule}.{key} = {value}")
    for place, changed in folders.items():
        show.note(f"{place}: changes alarms: {', '.join(changed)}")
    return chosen


def thresholds() -> list[tuple[str, str, Any, str]]:
    """Rule, key, value and file of each threshold that a settings file sets; the user's own file decides."""
    folder, user = settings.from_folder(working_folder()), settings.from_user()
    folders, users = _alarms(folder), _alarms(user)
    counted = folders if folder.is_trusted else _harmless_thresholds(folder.place, folders)
    chosen: dict[tuple[str, str], tuple[Any, str]] = {}
    for place, tables in ((folder.place, counted), (user.place, users)):
        for rule, facts in tables.items():
            chosen.update({(rule, key): (value, place) for key, value in facts.items()})
    return [(rule, key, value, place) for (rule, key), (value, place) in chosen.items()]


def announce(context: click.Context, *, verbose: bool) -> None:
    """Names the settings that count in this call: a folder's thresholds always, with `verbose` all."""
    name = str(context.info_name)
    counted = [
        default
        for option, default in context.meta.get(META, {}).items()
        if context.get_parameter_source(option) is click.core.ParameterSource.DEFAULT_MAP
    ]
    for word, value, place, is_folders in counted:
        if verbose or (is_folders and word in THRESHOLDS.get(name, ())):
            show.note(f"{place}: [{name}] {word} = {value if isinstance(value, str) else ', '.join(value)}")
    if verbose and not counted:
        show.note(f"no settings file sets an option of '{name}' for this call")


def _options(
    name: str, command: click.Command, file: settings.Settings, harmless: AbstractSet[str] | None
) -> dict[str, Default]:
    """`harmless` are the options that the file may set; None is all of them."""
    spelled = {
        opt.lstrip("-"): param
        for param in command.params
        if isinstance(param, click.Option)
        for opt in param.opts
    }
    chosen: dict[str, Default] = {}
    for key, value in _table(file.place, file.tables, name).items():
        word = key.replace("_", "-")
        option = spelled.get(word)
        if option is None or option.name is None:
            hint = f"see 'gputel {name} --help'"
            raise GputelError(file.place, f"'{name}' has no option {key!r}", hint, exit_code=2)
        if _may_set(word, value, harmless):
            typed = _typed(file.place, f"[{name}] {word}", value, option)
            chosen[option.name] = Default(word, typed, file.place, harmless is not None)
        else:
            _refuse(file.place, f"[{name}] {word}", f"--{word}, {option.envvar}")
    return chosen


def _say_once(lines: Iterable[str]) -> None:
    """Prints each line once per call of gputel, though `settings` asks for the options of every command."""
    shown: set[str] = click.get_current_context().meta.setdefault(SAID, set())
    for line in lines:
        if line not in shown:
            shown.add(line)
            show.note(line)


def _may_set(word: str, value: object, harmless: AbstractSet[str] | None) -> bool:
    if harmless is None or word in HARMLESS_EVERYWHERE:
        return True
    return word in harmless and (word != "format" or _is_shipped(value))


def _refuse(place: str, setting: str, instead: str) -> None:
    ways = ", ".join(word for word in (instead, str(settings.user_file())) if word)
    allow = f"allow it with 'gputel trust {place}', or use {ways.replace(', /', ' or /')}"
    show.note(f"{place}: {setting} is ignored, as a folder's file may not set it; {allow}")


def _alarms(file: settings.Settings) -> dict[str, dict[str, Any]]:
    """The file's thresholds; those that no rule has are refused."""
    from gputel.analysis.alarms import rules

    table = _table(file.place, file.tables, "alarms")
    thresholds = {rule: _table(file.place, table, rule) for rule in table}
    rules.load(rules.presets(), thresholds, file.place)
    return thresholds


def _table(place: str, tables: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = tables.get(name, {})
    if not isinstance(table, dict):
        raise GputelError(place, f"'{name}' is not a table", f"write [{name}]", exit_code=2)
    return table


def _is_shipped(format_name: object) -> bool:
    """Whether it is a format's name, which is never taken for a file."""
    from gputel.analysis.logs import formats

    return any(format_name == shipped.name for shipped in formats.shipped())


def _typed(place: str, key: str, value: object, option: click.Option) -> str | list[str]:
    """The value as a person would have typed it; click turns it into what the option wants."""
    values = value if option.multiple and isinstance(value, list) else [value]
    if any(isinstance(each, (dict, list)) for each in values):
        hint = "write one value" + (", or a list of them" if option.multiple else "")
        raise GputelError(place, f"{key} is not a value of this option", hint, exit_code=2)
    typed = [str(each).lower() if isinstance(each, bool) else str(each) for each in values]
    return typed if option.multiple else typed[0]


def _harmless_thresholds(
    place: str, thresholds: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Numbers, true and false, and names of metrics: a pattern could hold up the process that judges."""
    harmless: dict[str, dict[str, Any]] = {rule: {} for rule in thresholds}
    for rule, facts in thresholds.items():
        for key, value in facts.items():
            if isinstance(value, (int, float)) or key in HARMLESS_TEXT_OF_ALARMS:
                harmless[rule][key] = value
            else:
                _refuse(place, f"[alarms.{rule}] {key}", "")
    return harmless
