"""Chromium without a window, driven over a pipe: opens pages, points and clicks, and sees whatever they ask for.

It speaks the DevTools protocol, JSON between zero bytes, on the descriptors 3 and 4 that Chromium reads and writes.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_S = 300
FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # nothing leaves this machine
)


class Browser:
    """One process; `tab()` opens a page of its own in it."""

    def __init__(self, profile: Path) -> None:
        program = next(path for name in NAMES if (path := shutil.which(name)))
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        flags = [*FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}', program, *flags],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._buffer = b""
        self._number = 0
        self._listeners: dict[str, Callable[[str, dict[str, Any]], None]] = {}
        self.tabs: list[Tab] = []
        """Those that are open."""

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Asks, and handles whatever happens until the answer is there."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": parameters}
        message = json.dumps({**asked, "sessionId": session} if session else asked).encode() + b"\0"
        while message:
            message = message[os.write(self._write, message) :]
        number = self._number
        deadline = time.monotonic() + PATIENCE_S
        while True:
            outcome = self._next(deadline, method)
            if outcome.get("id") == number:
                if "error" in outcome:
                    raise RuntimeError(f"{method}: {outcome['error']['message']}")
                return dict(outcome["result"])
            listener = self._listeners.get(outcome.get("sessionId", ""))
            if listener and "method" in outcome:
                listener(outcome["method"], outcome["params"])

    def _next(self, deadline: float, waiting_for: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            read = os.read(self._read, 1 << 20) if ready else b""
            if not read:
                raise RuntimeError(f"the browser did not answer {waiting_for}")
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))

    def tab(self, width: int = 1280, height: int = 900, *, dark: bool = False, phone: bool = False) -> Tab:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, session, target)
        self._listeners[session] = tab.listen
        self.tabs.append(tab)
        for domain in ("Page", "Runtime", "Network", "Log"):
            tab.call(f"{domain}.enable")
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        tab.call("Emulation.setEmulatedMedia", features=scheme)
        tab.resize(width, height, phone=phone)
        return tab

    def close(self) -> None:
        try:
            self.call("Browser.close")
        except (RuntimeError, OSError):
            self._process.kill()
        finally:
            self._process.wait(PATIENCE_S)
            os.close(self._read)
            os.close(self._write)


class Tab:
    """A page. `errors` is what it complained of, `requests` every address that it asked for."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser, self._session, self._target = browser, session, target
        self.errors: list[str] = []
        self.requests: list[str] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)

    def close(self) -> None:
        self._browser.tabs.remove(self)
        self._browser.call("Target.closeTarget", targetId=self._target)

    def listen(self, method: str, outcome: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = outcome["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and outcome["type"] in ("error", "warning", "assert"):
            self.errors.append(str([part.get("value") for part in outcome["args"]]))
        elif method == "Log.entryAdded" and outcome["entry"]["level"] in ("error", "warning"):
            self.errors.append(outcome["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(outcome["request"]["url"])

    def open(self, page: Path | str) -> None:
        """Until the page says that it has painted."""
        self.call("Page.navigate", url=page.as_uri() if isinstance(page, Path) else page)
        self.until("document.documentElement?.dataset.painted !== undefined")

    def evaluate(self, script: str) -> Any:
        """What an expression comes to, promises awaited."""
        outcome = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in outcome:
            raise RuntimeError(outcome["exceptionDetails"]["exception"]["description"])
        return outcome["result"].get("value")

    def until(self, condition: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                if self.evaluate(condition):
                    return
                self.evaluate("new Promise((done) => setTimeout(done, 20))")
            except RuntimeError as error:
                if "context" not in str(error) and "navigated" not in str(error):
                    raise
        raise TimeoutError(f"never came true: {condition}")

    def resize(self, width: int, height: int, *, phone: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )

    def box(self, selector: str) -> tuple[float, float, float, float]:
        """Left, top, width and height of an element, scrolled into sight."""
        found = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect(); "
            "return [b.left, b.top, b.width, b.height]; })()"
        )
        left, top, width, height = found
        return left, top, width, height

    def point(self, selector: str, across: float, down: float = 0.5) -> None:
        """The pointer to a place in an element, as shares of its width and height."""
        left, top, width, height = self.box(selector)
        self._mouse("mouseMoved", left + across * width, top + down * height)

    def drag(self, selector: str, start: float, end: float) -> None:
        left, top, width, height = self.box(selector)
        y = top + height / 2
        self._mouse("mouseMoved", left + start * width, y)
        self._mouse("mousePressed", left + start * width, y, button="left", clickCount=1, buttons=1)
        self._mouse("mouseMoved", left + end * width, y, button="left", buttons=1)
        self._mouse("mouseReleased", left + end * width, y, button="left", clickCount=1)

    def click(self, selector: str) -> None:
        left, top, width, height = self.box(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self._mouse(kind, left + width / 2, top + height / 2, button="left", clickCount=1)

    def _mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        clip: dict[str, Any] = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"clip": {**size, "scale": 1}, "captureBeyondViewport": True}
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png", **clip)["data"]))

    def pdf(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"]))


@contextmanager
def started() -> Iterator[Browser]:
    with tempfile.TemporaryDirectory(prefix="gputel-chromium-", ignore_cleanup_errors=True) as profile:
        browser = Browser(Path(profile))
        try:
            yield browser
        finally:
            browser.close()
