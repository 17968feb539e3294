"""Decides who may see the live page: a request -> None, or the reason for refusing it. Nothing here opens a
socket.

On a loopback address every local user may look, but no page of another site: the Host header must name this
machine, which defeats DNS rebinding. On other addresses the link carries a token, which becomes a cookie at once,
so that it appears neither in the address bar nor in a referrer.
"""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from gputel.telemetry.errors import GputelError

LOCAL = frozenset(("127.0.0.1", "localhost", "::1"))
METHODS = ("GET", "HEAD")
ONCE = ("host", "content-length")  # headers of which a second one is an attempt to mislead
# Of private zones: no site on the internet can have such a name.
PRIVATE = (".local", ".localdomain", ".internal", ".lan", ".home.arpa", ".svc")
SHORTEST_TOKEN = 16
TOKEN = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Request:
    """An HTTP request without a body; header names are lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Refusal:
    """The HTTP status and text of a refused request."""

    status: int
    text: str


class AccessCheck:
    """Checks requests for a page served at `host`.

    A loopback address needs no token; elsewhere it is `token`, or a new one at each start.
    """

    def __init__(self, host: str, port: int, token: str | None = None) -> None:
        self._host, self._port = host, port
        self.token = token or (None if is_local(host) else new_token())

    @property
    def link(self) -> str:
        """The link for the user, with the token if there is one."""
        everywhere = self._host in ("0.0.0.0", "::")
        name = socket.gethostname() if everywhere else self._host
        place = f"http://{f'[{name}]' if ':' in name else name}:{self._port}/"
        return place if self.token is None else f"{place}?token={self.token}"

    def tunnel(self, environment: Mapping[str, str]) -> str | None:
        """The ssh command that brings the page to the machine that the user has logged in from; None if local."""
        words = environment.get("SSH_CONNECTION", "").split()
        if len(words) != 4 or not is_local(self._host):
            return None
        port = "" if words[3] == "22" else f" -p {words[3]}"
        user = f"{environment['USER']}@" if environment.get("USER") else ""
        return f"ssh -N -L {self._port}:localhost:{self._port}{port} {user}{words[2]}"

    def refusal(self, request: Request) -> Refusal | None:
        """Why a request is refused; None if it is allowed."""
        if request.method not in METHODS:
            return Refusal(405, "this page is read-only")
        if not self._is_ours(_name(request.headers.get("host", ""))):
            return Refusal(421, "the Host header names another machine")
        if self._is_cross_site(request):
            return Refusal(403, "requested by another site")
        if self.token is not None and not (self.has_token(request) or self._has_cookie(request)):
            return Refusal(403, "open the link that gputel tail printed: it contains a token")
        return None

    def has_token(self, request: Request) -> bool:
        """Whether the URL contains the token."""
        return self._is_token(parse_qs(request.query).get("token", [""])[0])

    @property
    def cookie(self) -> str:
        """The cookie that replaces the token in the URL."""
        return f"{self._cookie}={self.token}; Path=/; HttpOnly; SameSite=Lax"

    @property
    def _cookie(self) -> str:
        return f"gputel_{self._port}"  # a browser does not tell ports apart

    def _has_cookie(self, request: Request) -> bool:
        try:
            cookie = SimpleCookie(request.headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return cookie is not None and self._is_token(cookie.value)

    def _is_token(self, text: str) -> bool:
        return self.token is not None and secrets.compare_digest(
            text.encode("utf-8", "replace"), self.token.encode()
        )

    def _is_ours(self, name: str) -> bool:
        """Whether a host name is one of this machine's."""
        if name in LOCAL or name == self._host.lower():
            return True
        if self.token is None:
            return False
        return is_address(name) or name.partition(".")[0] == socket.gethostname().lower().partition(".")[0]

    def _is_cross_site(self, request: Request) -> bool:
        """Whether another site made the request. Its links may lead to the page, its scripts may not read it."""
        origin = request.headers.get("origin")
        if origin is not None and origin != f"http://{request.headers.get('host')}":
            return True
        site = request.headers.get("sec-fetch-site", "none")
        opened = request.path == "/" and request.headers.get("sec-fetch-dest") == "document"
        return site not in ("none", "same-origin") and not opened


def read(head: bytes) -> Request | None:
    """Parses a request; None if it is malformed or has a body."""
    try:
        first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        method, target, version = first.split(" ")
    except ValueError:
        return None
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or name.strip() != name or not name or (name in ONCE and name in headers):
            return None
        headers[name] = value.strip()
    has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
    if not version.startswith("HTTP/1.") or not target.startswith("/") or has_body:
        return None
    path, _, query = target.partition("?")
    return Request(method, path, query, headers)


def new_token() -> str:
    return secrets.token_urlsafe(24)


def kept_token(path: Path) -> str:
    """Reads the token in a file; writes a new one there, for its owner alone, if there is none."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        if path.stat().st_mode & 0o077:
            raise GputelError(
                f"--token-file {path}", "other users can read it", f"chmod 600 {path}"
            ) from None
        return checked_token(path.read_text("utf-8", "replace").strip(), f"--token-file {path}")
    except OSError as error:
        fault = f"cannot be written: {(error.strerror or str(error)).lower()}"
        raise GputelError(f"--token-file {path}", fault, "name a file in a folder of yours") from None
    token = new_token()
    with os.fdopen(descriptor, "w") as file:
        file.write(token + "\n")
    return token


def checked_token(token: str, place: str) -> str:
    """Refuses a token that is easily guessed, or does not fit a link and a cookie."""
    if len(token) < SHORTEST_TOKEN or not TOKEN.fullmatch(token):
        fault = f"is not a token of at least {SHORTEST_TOKEN} letters, digits, - and _"
        hint = "make one with: python -c 'import secrets; print(secrets.token_urlsafe())'"
        raise GputelError(place, fault, hint, exit_code=2)
    return token


def is_private(host: str) -> bool:
    """Whether no site on the internet can have this name: an address, a bare name, or one of a private zone."""
    name = _name(host).rstrip(".")
    return bool(name) and (is_address(name) or "." not in name or name.endswith(PRIVATE))


def is_loopback(host: str) -> bool:
    """Whether a Host header names this machine as seen from itself."""
    return is_local(_name(host))


def is_local(host: str) -> bool:
    return host in LOCAL or (is_address(host) and ipaddress.ip_address(host).is_loopback)


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _name(host: str) -> str:
    """The host without its port, which an SSH tunnel may change."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
