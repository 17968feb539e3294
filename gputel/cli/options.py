"""The flags by which commands write pages and pictures, and what they say when they have.

Values of options that are more than a word or a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gputel.cli import show
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.document import Document
    from gputel.analysis.render.style import PictureLook

Command = TypeVar("Command", bound=Callable[..., Any])
FLAGS = {
    "html": "Write one offline page.",
    "png": "Write the page's panels as pictures.",
    "svg": "The same, as SVG.",
    "pdf": "The same, as PDF.",
}


LOOK = f"{__name__}.look"  # where a command's context holds what was asked of its pictures
INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72, "": 1.0}


def together(*several: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Adds several options to a command, in the order of its help."""

    def added(command: Command) -> Command:
        return reduce(lambda so_far, option: option(so_far), reversed(several), command)

    return added


def pages(command: Command) -> Command:
    """`--html --png --svg --pdf`, in this order in the help, and how pictures look."""
    for name, kind, metavar, about in reversed(PICTURE_OPTIONS):
        command = click.option(
            f"--{name}", type=kind, metavar=metavar, help=about, expose_value=False, callback=_remember_look
        )(command)
    for flag, about in reversed(FLAGS.items()):
        command = click.option(f"--{flag}", is_flag=True, help=about)(command)
    return command


def _remember_look(context: click.Context, option: click.Parameter, value: object) -> None:
    if value is not None:
        context.meta.setdefault(LOOK, {})[option.name] = value


def picture_look() -> PictureLook:
    """The style that was asked for, with what was asked for besides."""
    from gputel.analysis.render.style import LOOKS

    asked = dict(click.get_current_context().meta.get(LOOK, {}))
    panels = tuple(name.strip() for name in asked.pop("panel", "").split(",") if name.strip())
    return replace(LOOKS[asked.pop("style", "paper")], panels=panels, **asked)


def inches(text: str) -> float:
    """`3.25in`, `8.2cm`, `82mm`; a plain number is inches."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(in|cm|mm|pt|)", text)
    width = float(match[1]) * INCHES[match[2]] if match else 0.0
    if not 1 <= width <= 40:
        raise click.BadParameter(f"'{text}' is not a width like 3.25in or 82mm")
    return width


PICTURE_OPTIONS = (
    ("panel", str, "NAME,...", "Draw only these panels into pictures."),
    ("width", inches, "3.25in", "Width of a picture."),
    ("font", click.FloatRange(3, 60), "PT", "Size of the letters in pictures."),
    ("style", click.Choice(["paper", "slide"]), None, "Pictures for a column of a paper, or for a slide."),
    ("dpi", click.IntRange(30, 1200), "N", "Dots per inch of PNG."),
)


PAGES = (
    ("html png svg pdf", "One offline page, or its panels as pictures."),
    ("panel width font style dpi", "Which panels are drawn, and how they look."),
)
"""The rows of `options` in a command's help."""
OUT = ("out force", "Where to write; overwrite files of other programs.")


def writing(command: Command) -> Command:
    """`--out --force`, of commands that write files."""
    path = click.Path(path_type=Path)
    command = click.option("--force", is_flag=True, help="Overwrite files that gputel did not write.")(
        command
    )
    return click.option("--out", type=path, default=Path(), metavar="PATH", help="Where to write.")(command)


def json(command: Command) -> Command:
    """`--json`, of commands whose answer is the same with it."""
    return click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")(command)


def wanted_outputs(flags: Mapping[str, Any]) -> list[str]:
    return [kind for kind in FLAGS if flags.get(kind)]


def checked(
    flags: Mapping[str, Any], out: Path, name: str, tables: Mapping[str, str], *, force: bool = False
) -> list[str]:
    """Which pages and pictures were asked for; what could not be written is refused before anything is read.

    `tables` are the command's other files: each flag with the ending by which `--out` may name one, or "".
    """
    kinds, others = (
        wanted_outputs(flags),
        {flag: ending for flag, ending in tables.items() if flags.get(flag)},
    )
    if kinds or others:
        from gputel.analysis.render import files

        files.check(kinds, out, name, others, force=force)
    elif was_typed("out"):
        each = ", ".join(f"--{flag}" for flag in (*tables, *FLAGS) if flag in flags)
        raise click.UsageError(f"--out says where to write, and nothing is to be written; add one of {each}")
    return kinds


def was_typed(option: str) -> bool:
    """Whether an option was given on the command line, and not by a setting, which counts for every call."""
    source = click.get_current_context().get_parameter_source(option)
    return source is click.core.ParameterSource.COMMANDLINE


def write(
    page: Document,
    kinds: Sequence[str],
    out: Path,
    name: str,
    *,
    force: bool = False,
    look: PictureLook | None = None,
) -> None:
    from gputel.analysis.render import files

    for path in files.write_page(page, kinds, out, name, look or picture_look(), force=force):
        show.note(f"wrote {path}")


SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "": 1.0}
MULTIPLES = {"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}


def duration(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d|)", text)
    if not match or float(match[1]) == 0:
        raise click.BadParameter(f"'{text}' is not a duration like 30s, 5m or 2h")
    return float(match[1]) * SECONDS[match[2]]


def hours(text: str) -> float:
    """`31h`, `90min`, `2d`; a plain number is hours."""
    plain = re.fullmatch(r"\d*\.?\d+", text)
    try:
        limit = float(text) if plain else duration(text) / 3600
    except click.BadParameter:
        limit = 0
    if limit == 0:
        raise click.BadParameter(f"'{text}' is not a time like 31h, 90min or 31, which is hours")
    return limit


def dollars(text: str) -> float:
    """`4`, `2.50`, `$1,200`."""
    match = re.fullmatch(r"\$?\s*(\d[\d,]*\.?\d*|\.\d+)", text.strip())
    if not match:
        raise click.BadParameter(f"'{text}' is not a number of dollars like 4 or 2.50")
    return float(match[1].replace(",", ""))


def spending(text: str) -> float:
    """The most dollars, which are more than none."""
    most = dollars(text)
    if most == 0:
        raise click.BadParameter(f"'{text}' leaves nothing to spend")
    return most


def price(command: Command) -> Command:
    """Adds `--price $`, the same in every command that counts money."""
    return click.option("--price", type=dollars, metavar="$", help="Dollars per GPU hour.")(command)


def budget(about: str) -> Callable[[Command], Command]:
    """Adds `--budget $`."""
    return click.option("--budget", type=spending, metavar="$", help=about)


def with_sign(_context: click.Context, _option: click.Parameter, text: str | None) -> float:
    """`3s`, `-7h`, `+250ms`, in seconds; nothing is 0."""
    match = re.fullmatch(r"([+-]?)(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d|)", text or "0")
    if not match:
        raise click.BadParameter(f"'{text}' is not a shift in time like 3s, -250ms or -7h")
    return float(match[1] + match[2]) * SECONDS[match[3]]


def share(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text)
    share = float(match[1]) / (100 if match[2] else 1) if match else 0
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
    from gputel.analysis.compare import gate

    name, _, value = text.partition("=")
    refusal = click.BadParameter(f"'{text}' is not a limit like {name or 'loss'}=3%")
    if not name:
        raise refusal
    try:
        return name, gate.share(value)
    except GputelError:
        raise refusal from None


def target(text: str) -> tuple[str, float]:
    """`val_bpb=0.87`; a number alone is of the loss."""
    name, equals, value = text.partition("=")
    if not equals:
        name, value = "loss", text
    try:
        return name, float(value)
    except ValueError:
        metric = name if equals and name else "loss"
        raise click.BadParameter(f"'{text}' is not a target like {metric}=2.9") from None


def directions(command: Command) -> Command:
    """Adds `--lower NAME` and `--higher NAME`: which way of a metric is better."""
    for way in ("higher", "lower"):
        about = f"{way.capitalize()} values of this metric are better; where its name does not say it."
        command = click.option(f"--{way}", multiple=True, metavar="NAME", help=about)(command)
    return command


def count(text: str) -> int:
    """`1.5B`, `100B`, `350M`, `400k`, `400,000`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKMBGT]?)", text.replace(",", "").replace("_", ""))
    number = round(float(match[1]) * MULTIPLES[match[2]]) if match else 0
    if number < 1:
        raise click.BadParameter(f"'{text}' is not a number like 350M, 1.5B or 400,000")
    return number


def counts(text: str) -> tuple[int, ...]:
    """Several, such as `16,20,24`; a comma stands between them."""
    return tuple(count(part.strip()) for part in text.split(","))


def bytes_per_second(text: str) -> float:
    """`10Gbit`, `100 Gb/s`, `1.25GB/s`: a small b is a bit, a capital one a byte."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([MGT])(bit|bps|b|B)(?:/s)?", text)
    if not match or float(match[1]) == 0:
        raise click.BadParameter(f"'{text}' is not a link like 10Gbit or 1.25GB/s")
    return float(match[1]) * MULTIPLES[match[2]] / (1 if match[3] == "B" else 8)


def byte_rate(text: str) -> float:
    """`1MB`, `500kB/s`: bytes a second."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMG])B(?:/s)?", text)
    if not match or float(match[1]) == 0:
        raise click.BadParameter(f"'{text}' is not a rate like 1MB or 500kB/s")
    return float(match[1]) * MULTIPLES[match[2]]
