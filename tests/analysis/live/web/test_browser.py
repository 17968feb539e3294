"""The live page as a browser shows it: the real command serves it, and a log grows under it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest

from gputel.analysis.render import style
from tests.analysis.render.test_in_a_browser import near, sheets
from tests.browser import Browser, Tab
from tests.browser.axe import violations
from tests.recordings import PATIENCE_S

pytestmark = [pytest.mark.long, pytest.mark.needs("chromium")]

STEP = "document.querySelector('.numbers dd span')?.textContent.split(' of ')[0]"
INK = """(() => { const canvas = document.querySelector('#loss canvas');
  if (!canvas?.width) return 0;
  const seen = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let inked = 0; for (let i = 3; i < seen.length; i += 4) if (seen[i]) inked++; return inked; })()"""


def grow(log: Path, first: int, last: int) -> None:
    """The record of the last line is not final yet: its step is shown, and its point comes with the next."""
    lines = (f"step {step}/1000 | loss: {9 - step / 200:.4f} | dt: 9.00ms\n" for step in range(first, last))
    with log.open("a") as file:
        file.writelines(lines)


@contextmanager
def served(folder: Path, *words: str | Path, port: int = 0) -> Iterator[str]:
    """The address of the page of a command that runs."""
    command = [sys.executable, "-m", "gputel", "tail", "--web", "--port", str(port), *map(str, words)]
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 0


@contextmanager
def ending(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def shows_step(tab: Tab, step: int) -> None:
    tab.until(f"{STEP} === '{step}'")


def test_live_page_paints_and_follows_the_log_without_loading_again(
    chromium: Browser, tmp_path: Path
) -> None:
    log = tmp_path / "d16.log"
    grow(log, 0, 50)
    with served(tmp_path, log) as link:
        tab = chromium.tab()
        tab.open(link)
        shows_step(tab, 49)
        tab.evaluate("window.mine = document.querySelector('#loss canvas')")
        inked = tab.evaluate(INK)
        assert inked > 0
        grow(log, 50, 400)
        shows_step(tab, 399)
        tab.until("shownPanels.get('loss').series[0].y.length === 399")
        assert tab.evaluate("document.querySelector('#loss canvas') === window.mine")
        assert tab.evaluate("document.title") == "d16 · step 399"
        assert tab.evaluate("document.querySelector('.upcoming').textContent").startswith(
            "nextend at step 1,000"
        )
        tab.point("#loss .over", 0.5)
        tab.until("!document.getElementById('hover').hidden")
        assert "loss" in tab.evaluate("document.getElementById('hover').textContent")
        assert tab.errors == []
        assert {address.removeprefix(link) for address in tab.requests} == {
            "",
            "look.css",
            "page.js",
            "events",
        }
        tab.close()


@pytest.mark.needs("poppler")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_print_holds_the_curves_in_their_light_colors(
    chromium: Browser, tmp_path: Path, *, dark: bool
) -> None:
    log = tmp_path / "d16.log"
    grow(log, 0, 400)
    with served(tmp_path, log) as link:
        tab = chromium.tab(dark=dark)
        tab.open(link)
        shows_step(tab, 399)
        tab.until("shownPanels.get('loss').series[0].y.length === 399")
        pixels = sheets(tab, tmp_path)
        assert near(pixels, style.TINTS["light"][0]) > 500
        assert (pixels.max(axis=1) < 60).mean() < 0.05  # paper is white
        grow(log, 400, 500)
        shows_step(tab, 499)
        assert tab.evaluate(INK) > 0
        assert tab.errors == []
        tab.close()


def test_live_page_connects_again_when_the_server_is_back_and_shows_what_came_meanwhile(
    chromium: Browser, tmp_path: Path
) -> None:
    log = tmp_path / "d16.log"
    grow(log, 0, 50)
    tab = chromium.tab()
    with served(tmp_path, log) as link:
        tab.open(link)
        shows_step(tab, 49)
        tab.evaluate("window.mine = true")
    tab.until("document.getElementById('line').classList.contains('broken')")
    grow(log, 50, 60)
    with served(tmp_path, log, port=int(link.rstrip("/").rpartition(":")[2])):
        shows_step(tab, 59)
        tab.until("!document.getElementById('line').classList.contains('broken')")
        assert tab.evaluate("window.mine")
        assert tab.evaluate("shownPanels.get('loss').series[0].y.length") == 59
        tab.close()


def test_page_behind_a_kept_token_connects_again_after_a_restart(chromium: Browser, tmp_path: Path) -> None:
    log, kept = tmp_path / "d16.log", ("--host", "0.0.0.0", "--token-file", str(tmp_path / "token"))
    grow(log, 0, 50)
    tab = chromium.tab()
    with served(tmp_path, log, *kept) as link:
        place, _, token = link.partition("?token=")
        port = int(place.rstrip("/").rpartition(":")[2])
        tab.open(f"http://127.0.0.1:{port}/?token={token}")
        shows_step(tab, 49)
    tab.until("document.getElementById('line').classList.contains('broken')")
    grow(log, 50, 60)
    with served(tmp_path, log, *kept, port=port):
        shows_step(tab, 59)
        tab.until("!document.getElementById('line').classList.contains('broken')")
        tab.close()


def test_twelve_runs_begin_with_a_table_and_can_be_filtered(chromium: Browser, tmp_path: Path) -> None:
    for number in range(12):
        grow(tmp_path / f"d{number:02d}.log", 0, 50 + number)
    with (tmp_path / "d11.log").open("a") as file:
        file.write("step 61/1000 | loss: nan | dt: 9.00ms\n" * 2)
    with served(tmp_path, *sorted(tmp_path.glob("*.log"))) as link:
        tab = chromium.tab(1440, 900)
        tab.open(link)
        tab.until("document.querySelectorAll('.overview tbody tr').length === 12")
        tab.until("shownPanels.get('loss')?.series.length === 12")
        assert tab.evaluate("document.querySelectorAll('.run').length") == 0
        assert (
            tab.evaluate("document.querySelector('.overview tbody').rows[3].cells[2].textContent")
            == "52/1,000"
        )
        tab.until("document.querySelectorAll('.overview .alarm')[11]?.textContent")
        box = "document.querySelector('.overview').closest('.scroll')"
        assert tab.evaluate(f"{box}.scrollWidth <= {box}.clientWidth")
        beside = "document.querySelector('#loss').getBoundingClientRect()"
        assert tab.evaluate(f"{beside}.top < 300 && {beside}.left > 600")
        tab.evaluate(
            "Object.assign(document.getElementById('filter'), { value: '3$' })"
            ".dispatchEvent(new Event('input'))"
        )
        tab.until(
            "[...document.querySelectorAll('.overview tbody tr')].filter((row) => !row.hidden).length === 1"
        )
        shown = (
            "shownPanels.get('loss').series.filter((series) => !series.hidden).map((series) => series.name)"
        )
        assert tab.evaluate(shown) == ["d03"]
        tab.until("shownPanels.get('loss').frame.xs.high < 60")
        assert tab.evaluate("document.querySelector('#events').textContent") == ""  # they are of d11
        heads = "[...document.querySelectorAll('.overview th[scope=col]')].filter((head) => !head.hidden)"
        names = tab.evaluate(f"{heads}.map((head) => head.textContent)")
        assert "loss" in names
        assert not {"MFU, %", "cost"} & set(names)  # no run has any
        assert tab.errors == []
        tab.close()
        phone = chromium.tab(390, 844, phone=True)
        phone.open(link)
        phone.until("document.querySelectorAll('.overview tbody tr').length === 12")
        assert phone.evaluate("document.documentElement.scrollWidth <= innerWidth")
        phone.close()


def test_log_is_text_and_never_markup(chromium: Browser, tmp_path: Path) -> None:
    markup = "<script>bad()<!--<img src onerror='bad()'>"
    log = tmp_path / f"{markup}.log"
    grow(log, 0, 20)
    with log.open("a") as file:
        file.write(f"saved checkpoint to {markup}.pt at step 19\n")
    grow(log, 20, 22)
    other = tmp_path / "other.log"
    grow(other, 0, 20)
    with served(tmp_path, log, other) as link:
        tab = chromium.tab()
        tab.open(link)
        tab.until("document.querySelectorAll('.run').length === 2")
        tab.until("document.querySelector('.happenings') !== null")
        assert tab.evaluate("document.querySelector('.run h2').textContent") == markup
        assert markup in tab.evaluate("document.querySelector('.happenings').textContent")
        tab.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert not tab.evaluate("!!document.querySelector('main img, main script')")
        assert tab.errors == []
        tab.close()


def test_recording_shows_its_gpus_and_says_that_they_are_simulated(chromium: Browser, tmp_path: Path) -> None:
    run = tmp_path / "run"
    training = "import time; print('step 1 loss: 2.5', flush=True); time.sleep(600)"
    words = ("record", "--simulate", "2xH100", "--out", str(run), "--", sys.executable, "-c", training)
    recorder = subprocess.Popen([sys.executable, "-m", "gputel", *words], stdout=subprocess.DEVNULL)
    with ending(recorder), served(tmp_path, run, "--price", "2") as link:
        tab = chromium.tab(390, 844, dark=True, phone=True)
        tab.open(link)
        tab.until("document.querySelectorAll('.gpus tbody tr').length === 2")
        tab.until("document.querySelector('.caution:not([hidden])')?.textContent.startsWith('SIMULATED: ')")
        tab.until("document.querySelector('.numbers')?.textContent.includes('cost so far')")
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert tab.errors == []
        if Path(os.environ.get("GPUTEL_AXE", "")).is_file():
            assert violations(tab) == []
        tab.close()


def test_link_with_a_token_opens_the_page_and_is_not_kept(chromium: Browser, tmp_path: Path) -> None:
    log = tmp_path / "d16.log"
    grow(log, 0, 50)
    with served(tmp_path, log, "--host", "0.0.0.0") as link:
        place, _, token = link.partition("?token=")
        port = place.rstrip("/").rpartition(":")[2]
        tab = chromium.tab()
        tab.open(f"http://127.0.0.1:{port}/?token={token}")
        shows_step(tab, 49)
        assert tab.evaluate("location.href") == f"http://127.0.0.1:{port}/"
        assert tab.evaluate("document.cookie") == ""
        assert tab.errors == []
        tab.close()


@pytest.mark.parametrize("runs", [3, 12], ids=["cards", "table"])
def test_live_page_breaks_no_rule_of_accessibility(runs: int, chromium: Browser, tmp_path: Path) -> None:
    logs = [tmp_path / f"run{number}.log" for number in range(runs)]
    for log in logs:
        grow(log, 0, 30)
    with logs[0].open("a") as file:
        file.write("step 31/1000 | loss: nan | dt: 9.00ms\n" * 2)
    with served(tmp_path, *logs, "--price", "2", "--gpus", "1", "--budget", "0.000001") as link:
        for dark, (width, phone) in product((False, True), ((1440, False), (390, True))):
            tab = chromium.tab(width, 900, phone=phone, dark=dark)
            tab.open(link)
            tab.until(f"document.querySelectorAll('.overview tbody tr, .run').length === {runs}")
            tab.until(
                "charts.some((chart) => chart.frame) && document.querySelector('.happenings .alarm') !== null"
            )
            assert violations(tab) == [], (width, dark)
            tab.evaluate("showStatus('connection lost, trying again', true)")
            assert violations(tab) == [], (width, dark)
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            tab.close()


def test_log_x_changes_the_curves_of_the_live_page(chromium: Browser, tmp_path: Path) -> None:
    grow(tmp_path / "train.log", 0, 100)
    with served(tmp_path, tmp_path / "train.log") as link:
        tab = chromium.tab()
        tab.open(link)
        tab.until("charts.length && charts[0].frame")
        tab.click("#logx")
        tab.until("charts[0].frame.xs.log")
        assert tab.evaluate("document.getElementById('logx').getAttribute('aria-pressed')") == "true"
        assert tab.errors == []


def test_finished_long_run_does_not_squash_the_others_and_a_running_one_is_in_sight(
    chromium: Browser, tmp_path: Path
) -> None:
    logs = [tmp_path / f"d{n}.log" for n in range(5)]
    for log, steps in zip(logs, (50, 60, 70, 80, 900), strict=True):
        grow(log, 0, steps)
    with served(tmp_path, *logs) as link:
        tab = chromium.tab()
        tab.open(link)
        tab.until("charts[0]?.series.length === 5 && view.isRunning('4')")
        high = "charts[0].frame.xs.high"
        tab.until(f"{high} === 898")
        with logs[4].open("a") as file:
            file.write("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
        tab.until("!view.isRunning('4')")
        tab.until(f"{high} === 78")
        assert tab.evaluate("titleOfAxis(charts[0])") == "step; d4 goes on to 898 (double click shows all)"
        tab.click("#whole")
        assert tab.evaluate(high) == 898
        assert not tab.errors


def test_live_page_shows_its_curves_by_tokens_and_by_the_wall_clock(
    chromium: Browser, tmp_path: Path
) -> None:
    log = tmp_path / "d16.log"
    stamped = "2026-11-21 12:{:02d}:00 step {}/1000 | loss: {:.4f} | tok/sec: 1,000 | dt: 60000.00ms\n"
    log.write_text("".join(stamped.format(step, step, 9 - step / 100) for step in range(1, 41)))
    with served(tmp_path, log) as link:
        tab = chromium.tab()
        tab.open(link)
        shows_step(tab, 40)
        tab.until("shownPanels.get('loss').series[0].y.length === 39")
        offered = "[...document.getElementById('axis').options].map(own => own.textContent)"
        assert tab.evaluate(offered) == ["step", "tokens", "time", "wall clock, UTC"]
        by = (
            "(s => {{ s.value = {!r}; s.dispatchEvent(new Event('change')); }})"
            "(document.getElementById('axis'))"
        )
        tab.evaluate(by.format("clock"))
        tab.until("shownPanels.get('loss').axis().name === 'clock'")
        noon = 1_795_262_400
        tab.until(f"shownPanels.get('loss').frame.xs.low === {noon + 60}")
        tab.evaluate(by.format("tokens"))
        tab.until("shownPanels.get('loss').frame.xs.high === 39 * 60000")
        tab.close()
