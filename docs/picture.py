"""Makes the README's pictures, but for the page from a recording that it makes itself: `python docs/picture.py`.

docs/terminal.svg is what `gputel tail` draws in a terminal (needs tmux), docs/page.png what `gputel report --html`
writes and docs/live.png what `gputel tail --web` serves (both need chromium). Run it again when one of them has
changed. It takes two minutes.
"""

import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from tests import browser  # noqa: E402

GPUTEL = (sys.executable, "-m", "gputel")
RUN = "runs/tiny"
REAL_RUN = DOCS.parent / "sample_runs" / "h100-depth12"
COLUMNS, LINES = 110, 30
PIXELS = (1280, 920)
LARGEST = 250_000  # bytes of a picture
SECONDS = 60  # until the terminal view must have drawn something


def record(folder: Path) -> None:
    training = (sys.executable, str(DOCS / "tiny_training.py"))
    command = (*GPUTEL, "record", "--simulate", "2xH100", "--out", RUN, "--tag", "lr=60", "--", *training)
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    description = folder / RUN / "run.json"  # the page shows the command as a reader would type it
    short = (
        description.read_text().replace(training[0], "python").replace(training[1], "docs/tiny_training.py")
    )
    description.write_text(short)


def terminal(folder: Path) -> str:
    """The view's screen as SVG, taken from a real terminal."""
    tmux = ("tmux", "-L", f"gputel-{folder.name}")
    view = " ".join((*GPUTEL, "tail", RUN))
    size = ("-x", str(COLUMNS), "-y", str(LINES))
    subprocess.run([*tmux, "new-session", "-d", *size, "-c", str(folder), view], check=True)
    try:
        screen = _drawn([*tmux, "capture-pane", "-e", "-p"])
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
    with open("/dev/null", "w") as nowhere:  # noqa: PTH123 - an open file is wanted
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        for line in screen.splitlines():
            console.print(Text.from_ansi(line), no_wrap=True, crop=True)
    picture = console.export_svg(title="gputel tail runs/tiny")
    # rich would fetch its font from a host
    return re.sub(r"@font-face \{.*?\}\n", "", picture, flags=re.DOTALL)


def _drawn(capture: list[str]) -> str:
    """The screen once it has something on its last line and no longer changes."""
    before = ""
    for _ in range(SECONDS):
        screen = subprocess.run(capture, check=True, capture_output=True, text=True).stdout
        if screen == before and screen.rstrip("\n").count("\n") == LINES - 1:
            return screen
        before = screen
        time.sleep(1)
    raise SystemExit(f"the terminal view drew nothing within {SECONDS} s")


def page(folder: Path, chromium: browser.Browser) -> bytes:
    """The top of the report's page of a real GPU as PNG."""
    html = folder / "report.html"
    command = [*GPUTEL, "report", str(REAL_RUN), "--html", "--out", str(html)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return _shot(chromium, html, "true")


def live(folder: Path, chromium: browser.Browser) -> bytes:
    """The live page of the run as PNG."""
    command = [*GPUTEL, "tail", "--web", "--port", "0", RUN]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            return _shot(chromium, server.stdout.readline().strip(), "charts.length && charts[0].frame")
        finally:
            server.send_signal(signal.SIGINT)


def _shot(chromium: browser.Browser, address: Path | str, drawn: str) -> bytes:
    tab = chromium.tab(*PIXELS)
    tab.open(address)
    tab.until(drawn)
    with tempfile.NamedTemporaryFile(suffix=".png") as picture:
        tab.screenshot(Path(picture.name), whole=False)
        return Path(picture.name).read_bytes()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        record(folder)
        pictures = {"terminal.svg": terminal(folder).encode()}
        with browser.started() as chromium:
            pictures |= {"page.png": page(folder, chromium), "live.png": live(folder, chromium)}
    for name, content in pictures.items():
        if len(content) > LARGEST:
            raise SystemExit(f"{name}: {len(content):,} bytes; {LARGEST:,} are allowed")
        (DOCS / name).write_bytes(content)


if __name__ == "__main__":
    main()
