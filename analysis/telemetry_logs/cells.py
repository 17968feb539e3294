"""Cells of telemetry as they are printed -> typed columns: numbers, stamps, and which GPU a row speaks of.

A stamp without a zone is taken as UTC, since the tools print the machine's own time and do not say which; dmon's
clock without a date gives `elapsed_s` and no `time`.
"""

from __future__ import annotations

import polars as pl

from gputel.analysis.telemetry_logs.names import INDICES, SCALES, Cell

MISSING = [
    *("", "-", "na", "n/a", "nan", "none", "null", "err!", "not supported", "unknown error"),
    *("[n/a]", "[not supported]", "[unknown error]", "[insufficient permissions]"),
    *("[gpu is lost]", "[gpu requires reset]"),
]
WORDS = {"active": "1", "not active": "0", "enabled": "1", "disabled": "0", "yes": "1", "no": "0"}
UNIT = r"(\d\.?)\s*(?:" + "|".join(SCALES) + ")$"
CLOCK = r"^\d\d:\d\d:\d\d$"


def unread(cell: Cell, lines: pl.Series, text: pl.Series, values: pl.Series) -> list[tuple[int, str]]:
    """Line and reason of every cell that is neither a value nor a word for "not measured"."""
    bad = values.is_null() & ~text.str.to_lowercase().is_in(MISSING)
    expected = "a time" if cell.role == "time" else "a number"
    cells = zip(lines.filter(bad), text.filter(bad), strict=True)
    return [(line, f"{cell.printed.strip()} is {word!r}, expected {expected}") for line, word in cells]


def numbers(text: pl.Series, scale: float) -> pl.Series:
    """`32768 MiB`, `0 %`, `P0`, `0x0000000000000004`, `Not Active`; the words for "not measured" are null."""
    word = text.str.to_lowercase().replace(WORDS)
    flags = word.str.strip_prefix("0x").str.to_integer(base=16, strict=False).cast(pl.Float64)
    plain = word.str.replace(r"^p(\d+)$", "$1").str.replace(UNIT, "$1")
    values = pl.when(word.str.starts_with("0x")).then(flags).otherwise(plain.cast(pl.Float64, strict=False))
    return _series(pl.when(~word.is_in(MISSING)).then(values if scale == 1.0 else values * scale))


def gpu_ids(cells: list[Cell], table: pl.DataFrame, at: list[int]) -> pl.Series:
    """The printed index, or the place of a printed name in the order of appearance, or the only GPU there is."""
    if not at:
        return _series(pl.repeat("0", table.height, dtype=pl.String).alias("gpu"))
    best = min(at, key=lambda i: cells[i].rank)
    ids: pl.Series = table[str(best)].alias("gpu")
    if cells[best].column in INDICES:
        return _series(ids.str.replace(r"(?i)^(gpu|cuda)[ :]?(\d+)$", "$2"))
    seen = ids.unique(maintain_order=True)
    return _series(ids.replace_strict(seen, [str(i) for i in range(len(seen))], return_dtype=pl.String))


def stamps(parts: list[pl.Series], height: int) -> pl.Series:
    """dmon prints the day and the time apart."""
    text = pl.concat_str(parts[:2], separator=" ") if parts else pl.repeat("-", height, dtype=pl.String)
    return _series(text.alias("time"))


def clock_only(stamp: pl.Series) -> bool:
    return bool(stamp.len()) and bool(stamp.str.contains(CLOCK).all())


def elapsed(clock: pl.Series) -> pl.Series:
    """Seconds since the first row; the clock starts again at midnight."""
    parts = [clock.str.slice(start, 2).cast(pl.Int64) for start in (0, 3, 6)]
    seconds = parts[0] * 3600 + parts[1] * 60 + parts[2]
    days = (seconds.diff() < 0).fill_null(False).cum_sum()
    return _series((seconds + days * 86400 - seconds.first()).cast(pl.Float64).alias("elapsed_s"))


def times(stamp: pl.Series) -> pl.Series:
    """UTC, in ns: `2023/07/30 17:28:02.589`, ISO 8601 with or without a zone, `20240104 13:54:35`, Unix time."""
    plain = stamp.str.replace("T", " ").str.replace_all("/", "-").str.replace(r"\s*(Z|UTC)$", "")
    plain = plain.str.replace(r"^(\d{4})(\d\d)(\d\d) ", "$1-$2-$3 ")
    local = plain.str.replace(r"(\d)\s*[+-]\d\d:?\d\d$", "$1")
    parsed = local.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="ns", strict=False).cast(pl.Int64)
    since_1970 = pl.when(parsed.is_not_null()).then(parsed - _offset(plain)).otherwise(_unix(plain))
    return _series(since_1970.cast(pl.Datetime("ns", "UTC")).alias("time"))


def _offset(text: pl.Series) -> pl.Series:
    zone = text.str.extract_groups(r"\d\s*([+-])(\d\d):?(\d\d)$").struct
    hours, minutes = (zone.field(name).cast(pl.Int64) for name in ("2", "3"))
    sign = zone.field("1").replace_strict({"-": -1, "+": 1}, return_dtype=pl.Int64)
    return _series((sign * (hours * 60 + minutes) * 60_000_000_000).fill_null(0))


def _unix(text: pl.Series) -> pl.Series:
    """Digits before the point tell seconds from milli-, micro- and nanoseconds for any date from 2001 to 2286."""
    digits = text.str.extract_groups(r"^(\d{10,19})(?:\.(\d+))?$").struct
    written = digits.field("1") + digits.field("2").fill_null("").str.head(9)
    return _series(written.str.pad_end(19, "0").str.head(19).cast(pl.Int64, strict=False))


def _series(expression: pl.Expr | pl.Series) -> pl.Series:
    return pl.DataFrame().select(expression).to_series()
