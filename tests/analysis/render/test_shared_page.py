"""A page that is sent has its secrets masked once more, and opens as before."""

from __future__ import annotations

import json
import re

import numpy as np

from gputel.analysis.document import Curves, Document, FactList, PlotAxis, Section, Series, Table
from gputel.analysis.render.html import html, is_ours
from gputel.analysis.render.shared_page import shared_page

ROOT = "/" + "root"
KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def page() -> bytes:
    x = np.arange(200.0)
    series = Series("d16 <b>", {"step": x}, np.sin(x), run="RUN")
    loss = Curves("loss", "Loss & more", (PlotAxis("step", "step"),), PlotAxis("loss", "loss"), (series,))
    table = Table(
        "T",
        ("run", "COLUMN-NAME"),
        [("a < b", "at /home/ann/data"), ("c", "/rooted")],
        links=["x y.html", None],
    )
    facts = FactList({"command": f"python {ROOT}/train.py --out /Users/bob/out"})
    return html(Document("a run", [Section("", [loss, table, facts])], runs=("RUN",)))


def test_page_without_anything_to_hide_stays_as_it_is() -> None:
    plain = (
        page()
        .replace(b"/home/ann", b"data")
        .replace(f"{ROOT}/".encode(), b"/srv/")
        .replace(b"/Users/bob", b"x")
    )
    assert shared_page(plain) == plain


def test_keys_that_came_into_a_page_later_are_masked() -> None:
    page_with_keys = (
        page().replace(b"COLUMN-NAME", f"{KEY} &amp;".encode()).replace(b'"RUN"', f'"{KEY}"'.encode())
    )
    sent = shared_page(page_with_keys)
    assert KEY.encode() in page_with_keys
    assert KEY.encode() not in sent
    assert is_ours(sent)
    data = re.search(rb'id="panels">(.*?)</script>', sent, re.DOTALL)
    assert data
    assert json.loads(data[1])["runs"] == ["***"]


def test_homes_are_shortened() -> None:
    sent = shared_page(page()).decode()
    assert "at ~/data" in sent
    assert "python ~/train.py --out ~/out" in sent
    assert "/rooted" in sent


def test_scripts_styles_and_numbers_stay_byte_for_byte() -> None:
    blocks = r'<(?:script|style)(?! type="application/json")[^>]*>.*?</(?:script|style)>'
    before, after = (re.findall(blocks, each.decode(), re.DOTALL) for each in (page(), shared_page(page())))
    assert before == after
    assert len(before) == 3
