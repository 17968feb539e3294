"""Loads the table of rules (rules.toml), with a project's thresholds and the chosen presets."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from gputel.telemetry.errors import GputelError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = Path(__file__).with_name("rules.toml")
PLACE = "gputel.toml"


@dataclass(frozen=True)
class Rule:
    """One rule: its name, what it reports, its detector and the detector's thresholds."""

    name: str
    what: str
    detector: str
    thresholds: Mapping[str, Any]


def load(
    presets: Collection[str] = (), settings: Mapping[str, Mapping[str, Any]] | None = None, place: str = PLACE
) -> list[Rule]:
    """Loads the rules. `settings` is the table [alarms] of the file `place`; unknown names raise GputelError."""
    tables = _tables()
    rules = dict(tables["rule"])
    for preset in presets:
        if preset not in tables["preset"]:
            raise GputelError(
                f"--preset {preset}",
                "no such preset",
                f"the presets are: {', '.join(tables['preset'])}",
                exit_code=2,
            )
        rules |= tables["preset"][preset]
    settings = settings or {}
    changed = {name: _changed(name, facts, settings.get(name, {}), place) for name, facts in rules.items()}
    for name in settings:
        if name not in rules:
            raise GputelError(
                place, f"no such alarm: '{name}'", f"the alarms are: {', '.join(rules)}", exit_code=2
            )
    return [_rule(name, facts) for name, facts in changed.items() if not facts.get("off")]


def presets() -> list[str]:
    """Names of all presets."""
    return list(_tables()["preset"])


def names() -> list[str]:
    """Names of all rules, including those of presets."""
    return [rule.name for rule in load(presets())]


@lru_cache(maxsize=1)
def _tables() -> dict[str, dict[str, Any]]:
    with TABLE.open("rb") as table:
        return tomllib.load(table)


def _changed(name: str, facts: dict[str, Any], settings: Mapping[str, Any], place: str) -> dict[str, Any]:
    """A rule with the project's thresholds, which may include limits that the table leaves unset."""
    unset = {"over_budget": ("hours", "dollars"), "gpu_level": ("above", "below")}.get(facts["detector"], ())
    for key in settings:
        if key not in (*facts, *unset, "off") or key == "detector":
            allowed = [*(key for key in facts if key not in ("what", "detector")), *unset, "off"]
            raise GputelError(
                place,
                f"alarm '{name}' has no '{key}'",
                f"it has {', '.join(dict.fromkeys(allowed))}",
                exit_code=2,
            )
        if not _has_type(settings[key], facts.get(key, False if key == "off" else 0.0)):
            raise GputelError(
                place, f"alarm '{name}': '{key}' has a value of a wrong type", "see docs/tail.md", exit_code=2
            )
    return {**facts, **settings}


def _has_type(value: object, default: object) -> bool:
    """Whether a value can stand for the default of the table: any number for a number."""
    if isinstance(default, list):
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    return isinstance(value, (int, float) if isinstance(default, (int, float)) else str)


def _rule(name: str, facts: Mapping[str, Any]) -> Rule:
    thresholds = {key: value for key, value in facts.items() if key not in ("what", "detector", "off")}
    return Rule(name, facts["what"], facts["detector"], thresholds)
