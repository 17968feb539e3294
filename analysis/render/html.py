"""A document -> one HTML file that opens offline by double click: its data packed, its panels drawn on canvases.

Nothing is ever fetched; the page's own policy forbids it. Text from logs is escaped, never markup, and what looks
like a key is masked. Only the script named by its hash runs.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources
from string import Template
from typing import Any

import numpy as np

from gputel.analysis.document import (
    Bars,
    Conversion,
    Curves,
    Document,
    FactList,
    Heat,
    Level,
    Marker,
    Panel,
    PlotAxis,
    Section,
    Series,
    Table,
)
from gputel.analysis.render import downsample, style
from gputel.analysis.render.html_tables import escaped, heading, html_table
from gputel.analysis.render.packing import Packer
from gputel.analysis.text import event
from gputel.telemetry import secrets

SCRIPTS = (
    *("unpack.js", "words.js", "scales.js", "axes.js", "curves.js", "heat.js", "bars.js", "pointer.js"),
    *("plots.js", "tables.js", "parallel.js", "figures.js", "svg.js", "tools.js"),
    *("against.js", "address.js", "page.js"),
)
GENERATOR = '<meta name="generator" content="gputel">'


def html(page: Document) -> bytes:
    """The whole file. Curves are thinned to what a page can carry, and it says from how many points to how many."""
    page = page.without_code()
    packer = Packer()
    panels = _thinned(page)
    marks = {id(panel.marks): panel.marks for panel in panels if isinstance(panel, Curves)}
    places = {key: place for place, key in enumerate(marks)}
    data = {
        "title": _text(page.title),
        "runs": [_text(run) for run in page.runs],
        "style": {**style.FOR_PAGES, "heat": style.HEAT},
        "marks": [[_mark(mark) for mark in shared] for shared in marks.values()],
        "panels": [_panel(panel, packer, places) for panel in panels],
        "conversions": [_conversion(conversion, packer) for conversion in page.conversions],
    }
    script = "\n".join(_without_comments(_asset(name)) for name in SCRIPTS)
    look = _asset("page.css")
    filled = Template(_asset("page.html")).substitute(
        policy=escape(_policy(script, look)),
        generator=GENERATOR,
        title=escaped(page.title),
        about=escaped(page.about) if page.about != page.title else "",
        caution="".join(f'<p class="caution" role="alert">{escaped(words)}</p>' for words in _warnings(page)),
        contents=_contents(page.sections),
        points=_points(panels),
        sections="".join(_sections(page.sections)),
        look=look,
        json=embedded_json(data),
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
    curves = iter(downsample.curves([panel for panel in panels if isinstance(panel, Curves)]))
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


def _panel(panel: Panel, packer: Packer, places: Mapping[int, int]) -> dict[str, Any]:
    """`places` says which list of marks is the panel's: many share one."""
    facts = {"name": panel.name, "title": _text(panel.title), "kind": type(panel).__name__.lower()}
    if isinstance(panel, Curves):
        return {**facts, **_curves(panel, packer), "marks": places[id(panel.marks)]}
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
        "levels": [_level(level) for level in panel.levels],
    }


def _series(series: Series, packer: Packer) -> dict[str, Any]:
    bands = {"low": series.low, "high": series.high}
    return {
        "name": _text(series.name),
        "run": series.run and _text(series.run),
        "tint": series.tint,
        "style": series.style,
        **({} if series.shown else {"hidden": True}),
        "measured": series.count,
        **({} if series.start_ns is None else {"start_ms": series.start_ns / 1e6}),
        "x": {name: packer.add(values) for name, values in series.x.items()},
        "y": packer.add(series.y),
        **{name: packer.add(values) for name, values in bands.items() if values is not None},
    }


def _conversion(conversion: Conversion, packer: Packer) -> dict[str, Any]:
    return {
        "link": conversion.link,
        "axis": _axis(conversion.axis),
        "seconds": packer.add(conversion.seconds),
        "values": packer.add(conversion.values),
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
        **({"names": [_text(name) for name in panel.names]} if panel.names else {}),
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
        "parts": [{"name": _text(event(name)), "color": style.kind(name)} for name in panel.parts],
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
        "kind": _text(event(mark.kind)),
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
    links = (f'<a href="#section-{number}">{escaped(title)}</a>' for number, title in titles.items())
    return f'<nav class="contents" aria-label="Contents">{"".join(links)}</nav>'


def _sections(sections: Sequence[Section]) -> Iterator[str]:
    """Panels are numbered through the page; the script finds its place by that number."""
    number = 0
    for at, section in enumerate(sections):
        yield f'<section class="{"wide" if section.wide else "grid"}{"" if at else " first"}">'
        if section.title:
            yield f'<h2 id="section-{at}">{escaped(section.title)}</h2>'
        if section.text:
            yield f'<p class="text">{escaped(section.text)}</p>'
        level = 3 if section.title else 2
        for item in section.items:
            if isinstance(item, Table):
                yield html_table(item, level)
            elif isinstance(item, FactList):
                yield _facts(item, level)
            else:
                note = f'<p class="note">{escaped(item.note)}</p>' if item.note else ""
                kind = type(item).__name__.lower() + (
                    " named" if isinstance(item, Heat) and item.names else ""
                )
                yield f'<figure class="{kind}" data-panel="{number}">{heading(item.title, level)}'
                yield f'<div class="plot"></div>{note}</figure>'
                number += 1
        yield "</section>"


def _facts(facts: FactList, level: int) -> str:
    pairs = (f"<dt>{escaped(name)}</dt><dd>{escaped(words)}</dd>" for name, words in facts.known().items())
    return f'<div class="facts">{heading(facts.title, level)}<dl>{"".join(pairs)}</dl></div>'


def _text(words: str) -> str:
    return secrets.mask(words)


def embedded_json(data: object) -> str:
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


def _without_comments(script: str) -> str:
    """The script without comments and indentation, which makes it a seventh smaller."""
    lines = (line.strip() for line in script.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


@cache
def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets").joinpath(name).read_text("utf-8")
