"""Values of options that are more than a word or a number."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from gputel.telemetry.errors import GputelError

Command = TypeVar("Command", bound=Callable[..., Any])

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "": 1.0}
MULTIPLES = {"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}


def duration(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d|)", text)
    if not found or float(found[1]) == 0:
        raise click.BadParameter(f"'{text}' is not a duration like 30s, 5m or 2h")
    return float(found[1]) * SECONDS[found[2]]


def with_sign(_context: click.Context, _option: click.Parameter, text: str | None) -> float:
    """`3s`, `-7h`, `+250ms`, in seconds; nothing is 0."""
    found = re.fullmatch(r"([+-]?)(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d|)", text or "0")
    if not found:
        raise click.BadParameter(f"'{text}' is not a shift in time like 3s, -250ms or -7h")
    return float(found[1] + found[2]) * SECONDS[found[3]]


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
    from gputel.analysis import gate

    name, _, value = text.partition("=")
    refusal = click.BadParameter(f"'{text}' is not a limit like {name or 'loss'}=3%")
    if not name:
        raise refusal
    try:
        return name, gate.share(value)
    except GputelError:
        raise refusal from None


def target(text: str) -> tuple[str, float]:
    """`val_bpb=0.87`."""
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise click.BadParameter(f"'{text}' is not a target like {name or 'loss'}=2.9") from None


def directions(command: Command) -> Command:
    """Adds `--lower NAME` and `--higher NAME`: which way of a metric is better."""
    for way in ("higher", "lower"):
        said = f"{way.capitalize()} values of this metric are better; where its name does not say it."
        command = click.option(f"--{way}", multiple=True, metavar="NAME", help=said)(command)
    return command


def count(text: str) -> int:
    """`1.5B`, `100B`, `350M`, `400k`, `400,000`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKMBGT]?)", text.replace(",", "").replace("_", ""))
    number = round(float(found[1]) * MULTIPLES[found[2]]) if found else 0
    if number < 1:
        raise click.BadParameter(f"'{text}' is not a number like 350M, 1.5B or 400,000")
    return number


def counts(text: str) -> tuple[int, ...]:
    """Several, such as `16,20,24`; a comma stands between them."""
    return tuple(count(part.strip()) for part in text.split(","))


def bytes_per_second(text: str) -> float:
    """`10Gbit`, `100 Gb/s`, `1.25GB/s`: a small b is a bit, a capital one a byte."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([MGT])(bit|bps|b|B)(?:/s)?", text)
    if not found or float(found[1]) == 0:
        raise click.BadParameter(f"'{text}' is not a link like 10Gbit or 1.25GB/s")
    return float(found[1]) * MULTIPLES[found[2]] / (1 if found[3] == "B" else 8)
