"""A document -> one HTML file that opens offline by double click: its data packed, its panels drawn on canvases.

Nothing is ever fetched; the page's own policy forbids it. Text from logs is escaped, never markup, and what looks
like a key is masked. Only the script named by its hash runs.

Arrays are packed in a few bytes a number; `unpack.js` is the other half. Numbers with few decimals (2.907160) are
kept exactly, as differences of whole numbers of their last digit; others are 32-bit floats, and 64-bit ones where
they are large whole numbers.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from importlib import resources
from string import Template
from typing import Any

import numpy as np

from gputel.analysis import text
from gputel.analysis.document import (
    Bars,
    Curves,
    Document,
    FactList,
    Heat,
    Level,
    Marker,
    Numbers,
    Panel,
    PlotAxis,
    Section,
    Series,
    Table,
)
from gputel.analysis.render import style, thin
from gputel.telemetry import secrets

SCRIPTS = (
    *("unpack.js", "words.js", "scales.js", "curves.js", "heat.js", "bars.js", "pointer.js"),
    *("plots.js", "tables.js", "tools.js", "page.js"),
)
LONGEST_NUMBER = 24  # letters of a cell that is kept on one line; a sentence may begin with a digit too
GENERATOR = '<meta name="generator" content="gputel">'


def html(page: Document) -> bytes:
    """The whole file. Curves are thinned to what a page can carry, and it says from how many points to how many."""
    packer = Packer()
    panels = _thinned(page)
    data = {
        "title": _text(page.title),
        "runs": [_text(run) for run in page.runs],
        "style": {**style.FOR_PAGES, "heat": style.HEAT},
        "panels": [_panel(panel, packer) for panel in panels],
    }
    script = "\n".join(_asset(name) for name in SCRIPTS)
    look = _asset("page.css")
    filled = Template(_asset("page.html")).substitute(
        policy=escape(_policy(script, look)),
        generator=GENERATOR,
        title=_escaped(page.title),
        about=_escaped(page.about),
        caution="".join(
            f'<p class="caution" role="alert">{_escaped(words)}</p>' for words in _warnings(page)
        ),
        contents=_contents(page.sections),
        points=_points(panels),
        sections="".join(_sections(page.sections)),
        look=look,
        json=_json(data),
        numbers=packer.text(),
        script=script,
    )
    return filled.encode()


def _warnings(page: Document) -> list[str]:
    return [*([page.caution] if page.caution else []), *(f"doubt: {doubt}" for doubt in page.doubts)]


def is_ours(start: bytes) -> bool:
    """Whether a file that begins like this was written here."""
    return GENERATOR.encode() in start[:4000]


def _thinned(page: Document) -> list[Panel]:
    panels = list(page.panels())
    curves = iter(thin.curves([panel for panel in panels if isinstance(panel, Curves)]))
    return [next(curves) if isinstance(panel, Curves) else panel for panel in panels]


def _points(panels: Sequence[Panel]) -> str:
    """`3,000,000 -> 48,000 points · `: how many were measured only where something was thinned."""
    drawn = [series for panel in panels if isinstance(panel, Curves) for series in panel.series]
    before, after = sum(series.count for series in drawn), sum(len(series.y) for series in drawn)
    if not before:
        return ""
    if before == after:
        return f"{after:,} points · "
    return f"{before:,} → {after:,} points, with every extreme kept · "


def _panel(panel: Panel, packer: Packer) -> dict[str, Any]:
    facts = {"name": panel.name, "title": _text(panel.title), "kind": type(panel).__name__.lower()}
    if isinstance(panel, Curves):
        return {**facts, **_curves(panel, packer)}
    if isinstance(panel, Heat):
        return {**facts, **_heat(panel, packer)}
    return {**facts, **_bars(panel)}


def _curves(panel: Curves, packer: Packer) -> dict[str, Any]:
    return {
        "axes": [_axis(axis) for axis in panel.axes],
        "y": _axis(panel.y),
        "noisy": panel.noisy,
        "steady": panel.steady,
        "log": panel.log,
        "link": panel.link,
        "series": [_series(series, packer) for series in panel.series],
        "marks": [_mark(mark) for mark in panel.marks],
        "levels": [_level(level) for level in panel.levels],
    }


def _series(series: Series, packer: Packer) -> dict[str, Any]:
    bands = {"low": series.low, "high": series.high}
    return {
        "name": _text(series.name),
        "run": series.run and _text(series.run),
        "tint": series.tint,
        "style": series.style,
        "measured": series.count,
        "x": {name: packer.add(values) for name, values in series.x.items()},
        "y": packer.add(series.y),
        **{name: packer.add(values) for name, values in bands.items() if values is not None},
    }


def _heat(panel: Heat, packer: Packer) -> dict[str, Any]:
    low, high = _range(panel.values)
    shares = (panel.values - low) / (high - low or 1.0)
    cells = np.where(np.isfinite(shares), 1 + np.round(254 * np.clip(shares, 0, 1)), 0)  # 0 is not measured
    return {
        "axes": [_axis(panel.x)],
        "y": _axis(panel.y),
        "value": {**_axis(panel.value), "low": low, "high": high},
        "link": panel.link,
        "columns": packer.add(panel.x_edges),
        "rows": packer.add(panel.y_edges),
        "cells": packer.add_bytes(cells),
        "levels": [_level(level) for level in panel.levels],
    }


def _range(values: Any) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)


def _bars(panel: Bars) -> dict[str, Any]:
    known = [[None if np.isnan(value) else float(value) for value in row] for row in panel.values]
    return {
        "unit": panel.unit,
        "whole": panel.whole,
        "rows": [_text(name) for name in panel.rows],
        "parts": [{"name": _text(name), "color": style.kind(name)} for name in panel.parts],
        "values": known,
    }


def _axis(axis: PlotAxis) -> dict[str, Any]:
    start = None if axis.start_ns is None else axis.start_ns / 1e6
    return {
        "name": axis.name,
        "title": _text(axis.title),
        "unit": axis.unit,
        "start_ms": start,
        "log": axis.log,
    }


def _mark(mark: Marker) -> dict[str, Any]:
    return {
        "kind": mark.kind,
        "color": style.kind(mark.kind),
        "text": _text(mark.text),
        "run": mark.run and _text(mark.run),
        "x": dict(mark.x),
        "end": None if mark.end is None else dict(mark.end),
    }


def _level(level: Level) -> dict[str, Any]:
    return {"value": level.value, "text": _text(level.text)}


def _contents(sections: Sequence[Section]) -> str:
    """Links to the sections that have a title, where there are several."""
    titles = {number: section.title for number, section in enumerate(sections) if section.title}
    if len(titles) < 3:
        return ""
    links = (f'<a href="#section-{number}">{_escaped(title)}</a>' for number, title in titles.items())
    return f'<nav class="contents" aria-label="Contents">{"".join(links)}</nav>'


def _sections(sections: Sequence[Section]) -> Iterator[str]:
    """Panels are numbered through the page; the script finds its place by that number."""
    number = 0
    for at, section in enumerate(sections):
        yield f'<section class="{"wide" if section.wide else "grid"}">'
        if section.title:
            yield f'<h2 id="section-{at}">{_escaped(section.title)}</h2>'
        if section.text:
            yield f'<p class="text">{_escaped(section.text)}</p>'
        level = 3 if section.title else 2
        for item in section.items:
            if isinstance(item, Table):
                yield from _table(item, level)
            elif isinstance(item, FactList):
                yield _facts(item, level)
            else:
                note = f'<p class="note">{_escaped(item.note)}</p>' if item.note else ""
                kind = type(item).__name__.lower()
                yield f'<figure class="{kind}" data-panel="{number}">{_heading(item.title, level)}'
                yield f'<div class="plot"></div>{note}</figure>'
                number += 1
        yield "</section>"


def _heading(title: str, level: int) -> str:
    return f"<h{level}>{_escaped(title)}</h{level}>" if title else ""


def _table(table: Table, level: int) -> Iterator[str]:
    heads = "".join(f'<th scope="col">{_escaped(name)}</th>' for name in table.columns)
    rows = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in table.rows)
    whole = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    body = f'<div class="scroll" tabindex="0">{whole}</div>'
    note = f'<p class="note">{_escaped(table.note)}</p>' if table.note else ""
    if table.folded:
        summary = f"<summary>{_escaped(table.title)}</summary>"
        yield f'<details class="table">{summary}{body}{note}</details>'
    else:
        yield f'<div class="table">{_heading(table.title, level)}{body}{note}</div>'


def _facts(facts: FactList, level: int) -> str:
    pairs = (f"<dt>{_escaped(name)}</dt><dd>{_escaped(words)}</dd>" for name, words in facts.known().items())
    return f'<div class="facts">{_heading(facts.title, level)}<dl>{"".join(pairs)}</dl></div>'


def _cell(cell: object) -> str:
    if cell is None or (isinstance(cell, float) and not np.isfinite(cell)):
        return '<td class="number">–</td>'
    if isinstance(cell, (int, float)) and not isinstance(cell, bool):
        return f'<td class="number">{text.number(cell)}</td>'
    words = str(cell)
    numeric = words[:1].isdigit() or (words[:1] in "$~+-−" and words[1:2].isdigit())
    short = numeric and len(words) <= LONGEST_NUMBER
    return f'<td class="number">{_escaped(words)}</td>' if short else f"<td>{_escaped(words)}</td>"


def _text(words: str) -> str:
    return secrets.mask(words)


def _escaped(words: str) -> str:
    return escape(_text(words))


def _json(data: object) -> str:
    """Inside a script element only `<` could end it."""
    return json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":")).replace(
        "<", "\\u003c"
    )


def _policy(script: str, look: str) -> str:
    return (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(look)}; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


@cache
def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets").joinpath(name).read_text("utf-8")


MOST_DIGITS = 7  # behind the point
LARGEST_STEP = 2**31 - 1
EXACT = 2.0**52


class Packer:
    """`add` answers what the page's JSON says in the array's place; `text` is all of them, gzipped, in base64."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._seen: dict[
            int, tuple[Numbers, dict[str, Any]]
        ] = {}  # with the array, lest its id be given anew

    def add(self, values: Numbers) -> dict[str, Any]:
        """Once, however many curves lie on it."""
        if id(values) not in self._seen:
            self._seen[id(values)] = values, self._added(values)
        return self._seen[id(values)][1]

    def _added(self, values: Numbers) -> dict[str, Any]:
        numbers = np.asarray(values, dtype=np.float64)
        known = np.isfinite(numbers)
        spot: dict[str, Any] = {"n": len(numbers)}
        if not known.all():
            spot["known"] = self._put(np.packbits(known).tobytes())
            numbers = numbers[known]
        return {**spot, **self._packed(numbers)}

    def add_bytes(self, values: Numbers) -> dict[str, Any]:
        """Whole numbers from 0 to 255, as they are."""
        return {"n": int(values.size), "as": "bytes", "at": self._put(values.astype(np.uint8).tobytes())}

    def text(self) -> str:
        return base64.b64encode(gzip.compress(b"".join(self._parts), 9, mtime=0)).decode()

    def _packed(self, numbers: Numbers) -> dict[str, Any]:
        for digits in range(MOST_DIGITS + 1):
            whole = np.round(numbers * 10.0**digits)
            if not (np.abs(whole) < EXACT).all():
                break
            if (whole / 10.0**digits == numbers).all():
                steps = np.diff(whole, prepend=0.0)
                if (np.abs(steps) < LARGEST_STEP).all():
                    return {"as": "steps", "digits": digits, "at": self._put(_planes(steps))}
        precise = bool(((np.abs(numbers) > 2**24) & (np.abs(numbers) < EXACT) & (numbers % 1 == 0)).any())
        kind = np.dtype("<f8" if precise else "<f4")
        raw = numbers.astype(kind).view(np.uint8).reshape(-1, kind.itemsize).T.tobytes()
        return {"as": f"floats{8 * kind.itemsize}", "at": self._put(raw)}

    def _put(self, data: bytes) -> int:
        start, self._size = self._size, self._size + len(data)
        self._parts.append(data)
        return start


def _planes(steps: Numbers) -> bytes:
    """Small differences of either sign as small numbers; their lowest bytes first, then the next, and so on."""
    signed = steps.astype(np.int64)
    folded = ((signed << 1) ^ (signed >> 63)).astype("<u4")
    return bytes(folded.view(np.uint8).reshape(-1, 4).T.tobytes())
