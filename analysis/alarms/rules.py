"""The table of rules (rules.toml), with what a project sets anew and the presets that were asked for."""

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
    name: str
    what: str
    detector: str
    thresholds: Mapping[str, Any]


def load(
    presets: Collection[str] = (), own: Mapping[str, Mapping[str, Any]] | None = None, place: str = PLACE
) -> list[Rule]:
    """`own` is the table [alarms] of the settings, found at `place`."""
    tables = _tables()
    rules = dict(tables["rule"])
    for preset in presets:
        if preset not in tables["preset"]:
            raise GputelError(
                f"--preset {preset}",
                "there is no such preset",
                f"there is: {', '.join(tables['preset'])}",
                exit_code=2,
            )
        rules |= tables["preset"][preset]
    changed = {name: _changed(name, facts, (own or {}).get(name, {}), place) for name, facts in rules.items()}
    for name in own or {}:
        if name not in rules:
            raise GputelError(
                place, f"there is no alarm '{name}'", f"there are: {', '.join(rules)}", exit_code=2
            )
    return [_rule(name, facts) for name, facts in changed.items() if not facts.get("off")]


def presets() -> list[str]:
    return list(_tables()["preset"])


def names() -> list[str]:
    """All rules, those of the presets too."""
    return [rule.name for rule in load(presets())]


@lru_cache(maxsize=1)
def _tables() -> dict[str, dict[str, Any]]:
    with TABLE.open("rb") as table:
        return tomllib.load(table)


def _changed(name: str, facts: dict[str, Any], own: Mapping[str, Any], place: str) -> dict[str, Any]:
    """What is set must be a threshold of that rule; a limit of the detector's that the table leaves open counts."""
    open_ones = {"over_budget": ("hours", "dollars"), "gpu_level": ("above", "below")}.get(
        facts["detector"], ()
    )
    for key in own:
        if key not in (*facts, *open_ones, "off") or key == "detector":
            known = [*(key for key in facts if key not in ("what", "detector")), *open_ones, "off"]
            raise GputelError(
                place,
                f"alarm '{name}' has no '{key}'",
                f"it has {', '.join(dict.fromkeys(known))}",
                exit_code=2,
            )
    return {**facts, **own}


def _rule(name: str, facts: Mapping[str, Any]) -> Rule:
    thresholds = {key: value for key, value in facts.items() if key not in ("what", "detector", "off")}
    return Rule(name, facts["what"], facts["detector"], thresholds)
