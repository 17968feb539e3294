"""Quantities: one form each, the same in every output; the script of pages agrees with Python."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gputel
from gputel.analysis import text
from gputel.analysis.documents import compare, plan, record
from gputel.analysis.plan.estimate import Estimate
from gputel.analysis.report.gpu_totals import GpuTotals
from tests import browser

ROOT = Path(gputel.__file__).parent.parent
HOMES = (ROOT / "analysis", ROOT / "gputel" / "cli")
SECONDS = [
    *(0, 0.0004, 0.25, 0.35, 0.85, 0.9994, 0.9996, 1.25, 2.5, 4.15, 12.35, 59.94, 59.96, 60, 90.5, 91.5, 200),
    *(3599.4, 3599.6, 3600, 3629.9, 3630.5, 3700, 15_570, 86_369, 86_399, 86_400, 183_600, 1e7, -3700),
]
JOULES = [
    0,
    0.00123,
    0.0125,
    0.9994,
    0.9996,
    1.25,
    771.25,
    9999.94,
    9999.96,
    16_349.9,
    3_599_949,
    3_599_951,
    3.6e6,
    3.1e9,
]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (text.with_error(1217.0, 0.001, 2), "1,217.00"),
        (text.with_error(1217.0, 12.0, 2), "1,217 ±12"),
        (text.with_error(431_260.0, 1240.0, 0, "tok/s"), "431,300 ±1,200 tok/s"),
        (text.with_error(0.0005494, 0.0000123, 7), "0.000549 ±0.000012"),
        (text.with_error(0.19, None, 0), "0.19"),
        (text.with_error(-0.4, 35.0, 0, "ms"), "0 ±35 ms"),
        (text.percent(0.03139), "0 %"),
        (text.percent(0.0425, 0.1), "0 %"),
        (text.percent(45.93, 23.71), "46 ±24 %"),
        (text.duration(33.0, error=2.52), "33.0 ±2.5 s"),
        (text.duration(481.9, error=2.43), "8 min 02 s ±2 s"),
        (text.duration(15_570.0, error=2.43), "4 h 20 min"),
        (text.energy(245_300.0, 3100.0), "245.3 ±3.1 kJ"),
        (text.energy(245_300.0, 5100.0), "245 ±5 kJ"),
        (text.money(12.5, 0.31), "$12.50 ±0.31"),
    ],
)
def test_digits_follow_the_error(written: str, shown: str) -> None:
    assert written == shown


@pytest.mark.parametrize(
    ("form", "value", "written"),
    [
        (text.number, 2.4179, "2.4179"), (text.number, 1234.5, "1,234.5"), (text.number, 512_340.0, "512,340"),
        (text.number, 0.00035, "0.00035"), (text.number, 7, "7"), (text.number, float("nan"), "nan"),
        (text.short, 0.214, "0.21"), (text.short, 12.34, "12.3"), (text.short, 1240.2, "1,240"),
        (text.short, 9.996, "10.0"), (text.count, 6.7e9, "6.7B"), (text.count, 335_540_000, "335.5M"),
        (text.count, 524_288, "524,288"), (text.count, 999_999_999, "1B"), (text.count, 1.35e19, "1.35e+19"),
        (text.step, 12_431, "12,431"), (text.duration, 3700, "1 h 02 min"), (text.duration, 0.35, "350 ms"),
        (text.duration, 59.96, "1 min 00 s"), (text.duration, 3599.6, "1 h 00 min"),
        (text.duration, 183_600, "2 d 03 h"), (text.energy, 771.2, "771.2 J"), (text.energy, 16_300, "16.3 kJ"),
        (text.energy, 3.1e9, "861.11 kWh"), (text.energy, 0.0125, "12.5 mJ"), (text.energy, 3_599_960, "1.00 kWh"),
        (text.size, 812, "812 B"), (text.size, 1023.99 * 1024, "1.0 MiB"), (text.size, 20.7 * 2**30, "20.7 GiB"),
        (text.money, 1234.5, "$1,234"), (text.money, 12.5, "$12.50"), (text.money, 0.0123, "$0.012"),
        (text.moment, 1_763_700_005_316_449_261, "2025-11-21T04:40:05.316449261Z"),
        (text.moment, datetime(2025, 11, 21, 4, 40, 5, 316_449, timezone.utc), "2025-11-21T04:40:05.316449000Z"),
        (text.difference, -0.00001, "0.0000"),
    ],
)  # fmt: skip
def test_quantity_is_written_as_people_read_it(
    form: Callable[[float | datetime], str], value: float | datetime, written: str
) -> None:
    assert form(value) == written


@given(st.floats(0, 1e8))
def test_duration_is_off_by_at_most_half_of_its_last_unit(seconds: float) -> None:
    parts = re.findall(r"([\d.,]+) (d|h|min|s|ms)", text.duration(seconds))
    sizes = {"d": 86_400, "h": 3600, "min": 60, "s": 1, "ms": 0.001}
    written = sum(float(value.replace(",", "")) * sizes[unit] for value, unit in parts)
    smallest = sizes[parts[-1][1]] * (0.1 if "." in parts[-1][0] else 1)
    assert abs(written - seconds) <= smallest / 2 * (1 + 1e-6)


def test_every_output_writes_a_quantity_in_the_same_words() -> None:
    """An hour and a minute, and a few gigajoules, at the end of a recording, in a comparison and in a plan."""
    gpu = GpuTotals("0", 0.0, None, None, 3.1e9, None, None, None, {}, None, 0.0, None, [], {})
    assert record.energies(gpu) == f"{compare.AMOUNTS['energy'](3.1e9)} by counter" == "861.11 kWh by counter"
    stop = Estimate(3700 / 3600, 1, 2, "computed", ())
    assert plan.lasting(stop) == compare.AMOUNTS["time"](3700) == "1 h 02 min"


@pytest.mark.parametrize(("count", "words"), [(0, "0 logs"), (1, "1 log"), (1200, "1,200 logs")])
def test_things_are_counted_in_the_singular_and_the_plural(count: int, words: str) -> None:
    assert text.counted(count, "log") == words


def test_only_text_divides_a_quantity_into_its_units() -> None:
    divides = re.compile(
        r"(//|%) ?(3600|86_400)|(/ ?3_600_000|/ ?3\.6e6|/ ?1024|/ ?2\*\*[23]0)[^}]*\.\d+f|\$\{[^}]*:[,.]"
    )
    modules = [path for home in HOMES for path in home.rglob("*.py") if divides.search(path.read_text())]
    assert [path.name for path in modules] == ["text.py"]


@pytest.mark.needs("chromium")
@pytest.mark.long
def test_script_of_pages_writes_durations_and_energies_as_python_does(tmp_path: Path) -> None:
    script = (ROOT / "analysis" / "render" / "assets" / "words.js").read_text()
    page = tmp_path / "words.html"
    page.write_text(f"<script>{script}\ndocument.documentElement.dataset.painted = ''</script>")
    with browser.started() as chromium:
        tab = chromium.tab()
        tab.open(page)
        for name, form, values in (("duration", text.duration, SECONDS), ("energy", text.energy, JOULES)):
            written = tab.evaluate(f"{json.dumps(values)}.map((value) => {name}(value))")
            assert written == [form(float(value)) for value in values]


def test_events_are_counted_by_the_names_that_people_use() -> None:
    counts = {"eval": 1200, "unknown_rate": 1, "disk_full": 2}
    assert text.events(counts) == "1,200 x evaluation, 1 x no rate, 2 x disk full"
