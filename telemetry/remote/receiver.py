"""A server that takes Prometheus remote write, such as VictoriaMetrics: one request, and what its answer means.

It imports http when it connects, so that a command can check an address and stay small.

Some servers answer 500 for a sample that they will never take; sent again for ever it would hold up all that come
after it. So the text of an answer counts, too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import urlsplit

from gputel.telemetry.characters import visible_line
from gputel.telemetry.errors import GputelError, reason
from gputel.telemetry.remote.storage import is_loopback
from gputel.telemetry.secrets import mask

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

Verdict: TypeAlias = Literal["taken", "refused", "later"]

USER, TOKEN = "GPUTEL_PUSH_USER", "GPUTEL_PUSH_TOKEN"
WRITE_PATH = "/api/v1/write"
TIMEOUT_S = 30.0
HEADERS = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
    "User-Agent": "gputel",
}
REFUSED = (400, 413, 422)
NEVER = re.compile(r"too old|out of order|out of bounds|duplicate", re.IGNORECASE)
"""What a server says of a sample that it will not take later either."""
HINTS = {
    401: f"check {TOKEN} and {USER}",
    403: "the token has no right to write",
    404: "is this the address for remote write, and does the server take it? Prometheus needs "
    "--web.enable-remote-write-receiver",
}
LONGEST_TEXT = 200
LONGEST_ANSWER = 4096
LONGEST_WAIT_S = 300.0


@dataclass(frozen=True)
class PushAnswer:
    """What to do with the samples: they were taken, will never be taken, or can be taken `later`."""

    verdict: Verdict
    text: str = ""
    wait_s: float = 0.0
    """The least time that the server wants to be left alone."""
    date_s: float | None = None
    """The server's clock, in seconds since 1970."""


class Receiver:
    """Keeps one connection. Raises GputelError, exit code 2, for an address that cannot be pushed to."""

    def __init__(self, address: str, env: Mapping[str, str] = os.environ) -> None:
        self.address = mask(address)
        if not is_server(address):
            hint = f"such as https://metrics.example.com{WRITE_PATH}"
            raise GputelError(f"--push {self.address}", "is no address to push to", hint, exit_code=2)
        parts = urlsplit(address)
        if parts.username or parts.password:
            fault = "an address is kept in records, a key must not be"
            raise GputelError(f"--push {self.address}", fault, f"set {USER} and {TOKEN}", exit_code=2)
        self._token = env.get(TOKEN, "")
        headers = authorization(f"--push {self.address}", address, env)
        self._host, self._port, self._is_tls = f"{parts.hostname}", parts.port, parts.scheme == "https"
        path = parts.path if parts.path.strip("/") else WRITE_PATH
        self._target = f"{path}?{parts.query}" if parts.query else path
        self._headers = HEADERS | headers
        self._connection: HTTPConnection | None = None

    def post(self, body: bytes) -> PushAnswer:
        """Sends a request, again at once if the server has closed a connection that was kept; never raises."""
        from http.client import HTTPException

        was_open = self._connection is not None
        try:
            return self._post(body)
        except (OSError, HTTPException) as error:
            self.close()
            if was_open and isinstance(error, ConnectionError):  # RemoteDisconnected is one
                return self.post(body)
            return PushAnswer("later", f"cannot be reached: {self._clean(reason(error))}")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _post(self, body: bytes) -> PushAnswer:
        if self._connection is None:
            self._connection = self._connect()
        self._connection.request("POST", self._target, body, self._headers)
        response = self._connection.getresponse()
        text = response.read(LONGEST_ANSWER).decode(errors="replace")
        if not response.isclosed():  # the rest of a long answer would be read as the next one
            self.close()
        return self._answer(response, text)

    def _connect(self) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection
        from urllib.request import getproxies, proxy_bypass

        kind = HTTPSConnection if self._is_tls else HTTPConnection
        proxy = (
            urlsplit(getproxies().get("https", "")) if self._is_tls and not proxy_bypass(self._host) else None
        )
        if proxy is None or not proxy.hostname:
            return kind(self._host, self._port, timeout=TIMEOUT_S)
        connection = kind(proxy.hostname, proxy.port, timeout=TIMEOUT_S)
        connection.set_tunnel(
            self._host, self._port or 443, _proxy_authorization(proxy.username, proxy.password)
        )
        return connection

    def _answer(self, response: HTTPResponse, text: str) -> PushAnswer:
        from email.utils import parsedate_to_datetime

        status, date_s = response.status, None
        with suppress(ValueError, TypeError):
            date_s = parsedate_to_datetime(response.headers.get("Date", "")).timestamp()
        if 200 <= status < 300:
            return PushAnswer("taken", date_s=date_s)
        fault = f"answers {status}: {self._clean(text) or response.reason}"
        if status in REFUSED or (status >= 500 and NEVER.search(text)):
            return PushAnswer("refused", fault, date_s=date_s)
        hint = HINTS.get(status) or ("name the address that it names" if 300 <= status < 400 else "")
        return PushAnswer("later", f"{fault}; {hint}" if hint else fault, _wait_s(response), date_s)

    def _clean(self, text: str) -> str:
        """The first line, without our token or another secret."""
        line = next((line.strip() for line in text.splitlines() if line.strip()), "")
        without = line.replace(self._token, "***") if self._token else line
        return visible_line(mask(without))[:LONGEST_TEXT]


def authorization(place: str, address: str, env: Mapping[str, str]) -> dict[str, str]:
    """The header with the user's key, {} without one. Raises GputelError for a key that must not be sent there."""
    user, token, parts = env.get(USER, ""), env.get(TOKEN, ""), urlsplit(address)
    if not token:
        return {}
    if not (token.isascii() and token.isprintable()):
        raise GputelError(TOKEN, "holds a character that no token has", "is there a line end?", exit_code=2)
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        fault = f"{TOKEN} would cross the network unencrypted"
        raise GputelError(place, fault, "use https", exit_code=2)
    return {"Authorization": _basic(user, token) if user else f"Bearer {token}"}


def is_server(address: str) -> bool:
    """Whether an address names a server that speaks http."""
    try:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _proxy_authorization(user: str | None, password: str | None) -> dict[str, str]:
    return {"Proxy-Authorization": _basic(user, password or "")} if user else {}


def _basic(user: str, password: str) -> str:
    import base64

    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _wait_s(response: HTTPResponse) -> float:
    """Retry-After, where it is a number of seconds."""
    text = response.headers.get("Retry-After", "")
    return min(float(text), LONGEST_WAIT_S) if text.isdecimal() else 0.0
