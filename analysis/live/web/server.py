"""Serves the live page over HTTP, with updates as server-sent events, from a thread of its own.

There are four addresses, and none reads the disk. A client that sends too much, sends too slowly or does not read
is disconnected. Nothing is logged, so that no token ends up in a log.

`Broadcast` numbers the updates and keeps the last few instead of a queue per client: a client that fell behind
them, or is new, gets the full state.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from http import HTTPStatus
from importlib import resources
from typing import TYPE_CHECKING

from gputel.analysis.live.web import access, messages
from gputel.analysis.live.web.connections import Connection, Connections
from gputel.analysis.live.web.messages import Parts, page_parts
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.live.alarms import RunAlarms
    from gputel.analysis.live.view import View

PORT = 8765
PAUSE_S = 0.5  # between two updates
KEEPALIVE_S = 15  # of silence, after which the server sends a keepalive
PATIENCE_S = 20  # for a client to read
REQUEST_S = 5  # for a request to arrive
MOST_HEAD = 16 << 10
MOST_WAITING = 64 << 10  # bytes that a client has not read yet, beyond one message
MOST_KEPT = 64  # updates
MOST_DIGITS = 18  # of the number of an update
MOST_KEPT_BYTES = 4 << 20

RENDER = "gputel.analysis.render.assets"
OWN = f"{__package__}.assets"
SCRIPTS = (
    *(
        (RENDER, name)
        for name in ("words.js", "scales.js", "axes.js", "curves.js", "bars.js", "pointer.js", "plots.js")
    ),
    *(
        (OWN, name)
        for name in (
            "model.js",
            "standing.js",
            "growing.js",
            "live_axes.js",
            "strips.js",
            "overview.js",
            "live.js",
        )
    ),
)
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    f"Content-Security-Policy: {POLICY}\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n"
    "Cache-Control: no-store\r\nConnection: close\r\n"
)


class LivePage:
    """The server. `link` is for the user to open; `wake` is called, from another thread, when a client connects."""

    def __init__(
        self,
        host: str,
        port: int | None,
        wake: Callable[[], None] = lambda: None,
        *,
        token: str | None = None,
        patience_s: float = PATIENCE_S,
        pause_s: float = PAUSE_S,
    ) -> None:
        self._socket = _listening(host, port)
        self.access = access.AccessCheck(host, self._socket.getsockname()[1], token)
        self.link = self.access.link
        self._wake, self._patience_s, self._pause_s = wake, patience_s, pause_s
        self._has_new_client = threading.Event()
        self._shown = float("-inf")
        self.connections = Connections()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="web", daemon=True)
        self._started = threading.Event()
        self._thread.start()
        self._started.wait()

    def show(self, views: Callable[[], Sequence[tuple[View, RunAlarms]]]) -> None:
        """Sends the present state to all clients; does nothing while there are none."""
        due = time.monotonic() - self._shown >= self._pause_s and self._broadcast.clients
        if not due and not self._has_new_client.is_set():
            return
        self._has_new_client.clear()
        self._shown = time.monotonic()
        self._loop.call_soon_threadsafe(self._broadcast.publish, page_parts(views()))

    def wait(self, timeout_s: float) -> None:
        """Sleeps until a client connects, or until the timeout."""
        self._has_new_client.wait(timeout_s)

    def close(self) -> None:
        """Disconnects every client and stops the thread."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        self._broadcast, self._stop = Broadcast(), asyncio.Event()
        server = await asyncio.start_server(self._handle, sock=self._socket, limit=MOST_HEAD)
        self._started.set()
        await self._stop.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = (writer.get_extra_info("peername") or ("",))[0]
        connection = self.connections.enter(address, writer.transport.abort)
        try:
            await self._respond(reader, writer, connection)
            writer.write_eof()
            await asyncio.wait_for(_rest(reader), self._patience_s)
            writer.close()
        except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self.connections.leave(connection)

    async def _respond(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: Connection
    ) -> None:
        try:
            limit_s = min(REQUEST_S, self._patience_s)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), limit_s)
        except asyncio.LimitOverrunError:
            return await self._send(writer, _refused(431, "the request is too long"))
        request = access.read(head)
        if request is None:
            return await self._send(writer, _refused(400, "not a valid request"))
        refusal = self.access.refusal(request)
        if refusal is not None:
            return await self._send(writer, _refused(refusal.status, refusal.text))
        connection.is_admitted = True
        if request.path == "/events" and request.method == "GET":
            return await self._follow(request, reader, writer)
        head, data = self._page(request)
        return await self._send(writer, head + data if request.method == "GET" else head)

    def _page(self, request: access.Request) -> tuple[bytes, bytes]:
        if request.path == "/" and self.access.token is not None and self.access.has_token(request):
            return _head(303, "text/plain", 0, f"Location: /\r\nSet-Cookie: {self.access.cookie}\r\n"), b""
        page = _pages().get(request.path)
        if page is None:
            return _refused(404, "not found"), b""
        kind, data = page
        return _head(200, kind, len(data)), data

    async def _follow(
        self, request: access.Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Sends a client the full state or the updates it lacks, until it disconnects."""
        broadcast = self._broadcast
        gone: asyncio.Future[bytes] = asyncio.ensure_future(reader.read(1))
        writer.transport.set_write_buffer_limits(high=MOST_WAITING)
        seen = broadcast.seen(request.headers.get("last-event-id", ""))
        broadcast.clients += 1
        following = broadcast.next  # taken before anything is sent, so that no update is missed
        try:
            await self._send(writer, _head(200, "text/event-stream") + b"retry: 1000\n\n")
            self._has_new_client.set()
            self._wake()
            while not gone.done():
                await asyncio.wait(
                    (following, gone), timeout=KEEPALIVE_S, return_when=asyncio.FIRST_COMPLETED
                )
                number, following = broadcast.number, broadcast.next
                await self._send(writer, broadcast.since(seen) or b"event: still\ndata:\n\n")
                seen = number
        finally:
            broadcast.clients -= 1
            gone.cancel()

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        writer.write(data)
        await asyncio.wait_for(writer.drain(), self._patience_s)


async def _rest(reader: asyncio.StreamReader) -> None:
    """Reads the rest of the request; closing with unread data would reset the connection and lose the answer."""
    for _ in range(64):
        if not await reader.read(MOST_HEAD):
            return


def _refused(status: int, text: str) -> bytes:
    data = f"{text}\n".encode()
    return _head(status, "text/plain", len(data), "Allow: GET, HEAD\r\n" if status == 405 else "") + data


def _head(status: int, kind: str, length: int | None = None, more: str = "") -> bytes:
    sized = "" if length is None else f"Content-Length: {length}\r\n"
    first = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
    return f"{first}Content-Type: {kind}; charset=utf-8\r\n{sized}{HEADERS}{more}\r\n".encode()


@cache
def _pages() -> dict[str, tuple[str, bytes]]:
    """Every address but `/events`, with its content type and content."""

    def read(package: str, name: str) -> str:
        return resources.files(package).joinpath(name).read_text("utf-8")

    script = '"use strict";\n' + "\n".join(read(package, name) for package, name in SCRIPTS)
    look = read(RENDER, "page.css") + read(OWN, "live.css")
    return {
        "/": ("text/html", read(OWN, "live.html").encode()),
        "/look.css": ("text/css", look.encode()),
        "/page.js": ("text/javascript", script.encode()),
    }


def _listening(host: str, port: int | None) -> socket.socket:
    """Listens on a port; with None on 8765, or on a free one if that is taken."""
    for wanted in (PORT, 0) if port is None else (port,):
        try:
            family = socket.getaddrinfo(host, wanted, type=socket.SOCK_STREAM)[0][0]
            return socket.create_server((host, wanted), family=family)
        except OSError as error:
            failed = error
    where = f"--host {host}" if isinstance(failed, socket.gaierror) else f"--port {port}"
    number = not isinstance(failed, socket.gaierror) and failed.errno
    fault = f"cannot listen there: {(os.strerror(number) if number else str(failed.strerror)).lower()}"
    raise GputelError(where, fault, "choose another, or leave it out")


class Broadcast:
    """Numbered updates for all clients. It belongs to the thread of its event loop."""

    def __init__(self) -> None:
        self.clients = 0
        self._parts: Parts | None = None
        self._number = 0
        self._boot = secrets.token_hex(4)  # tells numbers of this server from those of an earlier one
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=MOST_KEPT)
        self._whole: tuple[int, bytes] = (0, b"")
        self._next: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def number(self) -> int:
        """Number of the last update."""
        return self._number

    def publish(self, parts: Parts) -> None:
        """Sets the present state and wakes every client."""
        if self._parts is not None:
            message = messages.update(self._parts, parts, f"{self._boot}-{self._number + 1}")
            self._kept.append((self._number + 1, message))
            while sum(len(message) for _, message in self._kept) > MOST_KEPT_BYTES:
                self._kept.popleft()
        self._number += 1
        self._parts = parts
        self._next.set_result(None)
        self._next = asyncio.get_running_loop().create_future()

    def since(self, seen: int | None) -> bytes:
        """The updates after number `seen`, or the full state if they are no longer kept; b"" if there are none."""
        if seen == self._number or self._parts is None:
            return b""
        missed = [message for number, message in self._kept if seen is not None and number > seen]
        if seen is not None and seen < self._number and len(missed) == self._number - seen:
            return b"".join(missed)
        if self._whole[0] != self._number:
            message = messages.full_state(self._parts, f"{self._boot}-{self._number}")
            self._whole = self._number, message
        return self._whole[1]

    def seen(self, identity: str) -> int | None:
        """The number of the last update that a client has seen, from its Last-Event-ID."""
        boot, _, number = identity.rpartition("-")
        is_number = len(number) <= MOST_DIGITS and number.isascii() and number.isdigit()
        return int(number) if boot == self._boot and is_number else None

    @property
    def next(self) -> asyncio.Future[None]:
        """A future that is done at the next update."""
        return self._next
