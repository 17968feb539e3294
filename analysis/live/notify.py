"""Sends alarms to a command, a webhook or an apprise address, from a thread of its own.

A failed delivery is retried, and reported if every retry fails. URLs hold secrets, so only their host is printed.
"""

from __future__ import annotations

import json
import queue
import re
import shlex
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from typing import Protocol
from urllib.parse import urlsplit

from gputel.analysis import text
from gputel.analysis.alarms.watch import Alarm
from gputel.telemetry.characters import visible_line
from gputel.telemetry.errors import GputelError
from gputel.telemetry.secrets import mask

PLACE = re.compile(r"{(rule|run|state|step|text)}")
COMMAND_S = 60.0
ANSWER_S = 10.0
PAUSES_S = (1.0, 4.0, 15.0, 60.0)


@dataclass(frozen=True)
class Notice:
    """An alarm and the name of its run, for everything that sends or prints it.

    Secrets are masked, and characters that act on a terminal or hide are written as codes.
    """

    run: str
    alarm: Alarm

    def __post_init__(self) -> None:
        alarm = replace(self.alarm, key=_clean(self.alarm.key), text=_clean(self.alarm.text))
        object.__setattr__(self, "alarm", alarm)
        object.__setattr__(self, "run", _clean(self.run))

    @property
    def line(self) -> str:
        return f"{self.run}: {self.alarm.line}"


class Undelivered(Exception):  # noqa: N818 - not always an error: it may be tried again
    """A delivery failed; `final` if a retry would fail, too."""

    def __init__(self, why: str, *, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


class Channel(Protocol):
    def send(self, notice: Notice) -> None:
        """Delivers a notice; raises Undelivered if that failed."""

    def __str__(self) -> str:
        """Names the channel without its secrets."""


class NotifyCommand:
    """Runs a command with `{rule}`, `{run}`, `{state}`, `{step}` and `{text}` filled in, without a shell."""

    def __init__(self, template: str) -> None:
        try:
            self._words = shlex.split(template)
        except ValueError as error:
            raise GputelError("--on-alarm", str(error).lower(), "close the quotes", exit_code=2) from None
        if not self._words:
            raise GputelError(
                "--on-alarm", "names no command", "write e.g. 'notify-send {rule} {run}'", exit_code=2
            )

    def __str__(self) -> str:
        return f"command '{self._words[0]}'"

    def send(self, notice: Notice) -> None:
        facts = {**asdict(notice.alarm), "run": notice.run}
        argv = [_filled(word, facts) for word in self._words]
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=COMMAND_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Undelivered(_reason(error), final=True) from None
        if done.returncode:
            raise Undelivered(f"it exited with code {done.returncode}", final=True)


class Webhook:
    """Posts JSON to a URL. Slack, Discord and the like expect other forms; use apprise for them."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise GputelError("--webhook", "is not a web address", "it starts with https://", exit_code=2)
        self._url, self._host = url, parts.hostname

    def __str__(self) -> str:
        return f"webhook at {self._host}"

    def send(self, notice: Notice) -> None:
        body = json.dumps(_facts(notice)).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "gputel"}
        try:
            with urllib.request.urlopen(
                urllib.request.Request(self._url, body, headers), timeout=ANSWER_S
            ) as answer:
                answer.read(1024)
        except urllib.error.HTTPError as error:
            final = 400 <= error.code < 500 and error.code not in (408, 429)
            raise Undelivered(f"it answered {error.code}", final=final) from None
        except OSError as error:
            raise Undelivered(_reason(error)) from None


class Apprise:
    """Sends to any service that apprise supports; needs `gputel[apprise]`."""

    def __init__(self, url: str) -> None:
        try:
            self._apprise = import_module("apprise").Apprise()
        except ImportError:
            hint = "pip install 'gputel[apprise]'"
            raise GputelError("--notify", "apprise is not installed", hint) from None
        if not self._apprise.add(url):
            raise GputelError(
                "--notify", "apprise does not support this address", "see apprise's list", exit_code=2
            )
        self._scheme = urlsplit(url).scheme

    def __str__(self) -> str:
        return f"apprise {self._scheme}://"

    def send(self, notice: Notice) -> None:
        if not self._apprise.notify(title=f"gputel: {notice.alarm.what}", body=notice.line):
            raise Undelivered("apprise could not deliver it")


class Notifier:
    """Delivers notices in a thread, which also calls `on_trouble` for each one that could not be delivered."""

    def __init__(
        self,
        channels: Sequence[Channel],
        on_trouble: Callable[[str], None],
        pauses_s: Sequence[float] = PAUSES_S,
    ) -> None:
        self._channels, self._on_trouble, self._pauses_s = channels, on_trouble, pauses_s
        self._notices: queue.SimpleQueue[Notice | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._deliver, name="gputel-notify", daemon=True)
        self._thread.start()

    def send(self, notice: Notice) -> None:
        self._notices.put(notice)

    def close(self, patience_s: float = 15.0) -> None:
        """Waits for notices still queued; each gets one more attempt."""
        self._closing.set()
        self._notices.put(None)
        self._thread.join(patience_s)

    def _deliver(self) -> None:
        while (notice := self._notices.get()) is not None:
            for channel in self._channels:
                fault = self._try(channel, notice)
                if fault is not None:
                    self._on_trouble(f"{channel}: '{notice.alarm.rule}' was not delivered: {fault}")

    def _try(self, channel: Channel, notice: Notice) -> str | None:
        for pause_s in (*self._pauses_s, None):
            try:
                channel.send(notice)
            except Undelivered as fault:
                if fault.final or pause_s is None or self._closing.wait(pause_s):
                    return str(fault)
            else:
                return None
        return None


def _clean(words: str) -> str:
    return visible_line(mask(words))


def _facts(notice: Notice) -> dict[str, object]:
    """The JSON body of a webhook."""
    at_s = notice.alarm.at_s
    time = None if at_s is None else text.moment(int(at_s * 1e9))
    return {"schema": 1, "run": notice.run, "line": notice.line, "time": time, **asdict(notice.alarm)}


def _filled(word: str, facts: dict[str, object]) -> str:
    """Fills in the facts in one pass, so that braces in a run's name stay as they are."""
    return PLACE.sub(lambda match: "" if facts[match[1]] is None else str(facts[match[1]]), word)


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"it did not finish within {COMMAND_S:g} s"
    reason = getattr(error, "reason", error)
    return getattr(reason, "strerror", None) or str(reason)
