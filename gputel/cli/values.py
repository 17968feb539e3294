"""Values of options that are more than a word or a number."""

from __future__ import annotations

import re

import click

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "": 1.0}


def duration(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d|)", text)
    if not found or float(found[1]) == 0:
        raise click.BadParameter(f"'{text}' is not a duration like 30s, 5m or 2h")
    return float(found[1]) * SECONDS[found[2]]


def share(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text)
    share = float(found[1]) / (100 if found[2] else 1) if found else 0
    if not 0 < share <= 1:
        raise click.BadParameter(f"'{text}' is not a share like 2% or 0.02")
    return share


def tag(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise click.BadParameter(f"'{text}' is not like name=value")
    return name, value


def limit(text: str) -> tuple[str, float]:
    """`loss=1%` or `loss=0.01`."""
    name, value = tag(text)
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", value)
    if not found:
        raise click.BadParameter(f"'{text}' is not a limit like {name}=3%")
    return name, float(found[1]) / (100 if found[2] else 1)


def target(text: str) -> tuple[str, float]:
    """`val_bpb=0.87`."""
    name, value = tag(text)
    try:
        return name, float(value)
    except ValueError:
        raise click.BadParameter(f"'{text}' is not a target like {name}=2.9") from None
