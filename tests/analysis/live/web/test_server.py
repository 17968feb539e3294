"""Who gets the page and the events, who is refused, and who is let go."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np
import pytest

from gputel.analysis.live.series import Points
from gputel.analysis.live.state import RunState
from gputel.analysis.live.web import access, connections
from gputel.analysis.live.web.server import LivePage
from gputel.telemetry.errors import GputelError
from tests.recordings import PATIENCE_S

JUDGE: Any = SimpleNamespace(active=[], history=[])


def views(step: int = 1, points: int = 0) -> Any:
    steps = np.arange(float(points))
    random = np.random.default_rng(step).random(points)
    curves = {name: Points(steps, random, random, random) for name in ("loss", "mfu", "grad_norm", "lr")}
    view = replace(RunState("d16", "d16.log").view(), step=step, curves=curves if points else {})
    return lambda: [(view, JUDGE)]


@contextmanager
def opened(host: str = "127.0.0.1", patience_s: float = 20) -> Iterator[LivePage]:
    with closing(LivePage(host, 0, patience_s=patience_s, pause_s=0)) as page:
        yield page


@pytest.fixture
def page() -> Iterator[LivePage]:
    with opened() as one:
        yield one


def port(page: LivePage) -> int:
    return int(page.link.partition("?")[0].rstrip("/").rpartition(":")[2])


def asked(page: LivePage, path: str = "/", method: str = "GET", **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port(page), timeout=PATIENCE_S)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    return connection.getresponse()


def answer(page: LivePage, sent: bytes) -> bytes:
    """Everything that comes back for bytes as they are."""
    with socket.create_connection(("127.0.0.1", port(page)), timeout=PATIENCE_S) as client:
        client.sendall(sent)
        with client.makefile("rb") as file:
            return file.read()


@contextmanager
def watching(page: LivePage, last: str = "") -> Iterator[BinaryIO]:
    """A viewer that has been let in."""
    with socket.create_connection(("127.0.0.1", port(page)), timeout=PATIENCE_S) as client:
        head = f"GET /events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: {last}\r\n\r\n"
        client.sendall(head.encode())
        with client.makefile("rb") as file:
            while file.readline() not in (b"", b"retry: 1000\n"):
                pass
            file.readline()
            page.wait(PATIENCE_S)
            yield file


def event(file: BinaryIO) -> tuple[str, str, list[list[Any]]]:
    """Kind, identity, parts."""
    facts = dict(line.rstrip("\n").split(": ", 1) for line in iter(lambda: file.readline().decode(), "\n"))
    return facts["event"], facts["id"], json.loads(facts["data"])


def steps(result: list[list[Any]]) -> list[int]:
    return [part[3]["step"] for part in result if part[1] == "facts"]


@pytest.mark.parametrize(
    ("path", "kind"), [("/", "text/html"), ("/look.css", "text/css"), ("/page.js", "text/javascript")]
)
def test_page_and_what_belongs_to_it(page: LivePage, path: str, kind: str) -> None:
    response = asked(page, path)
    assert (response.status, response.headers.get_content_type()) == (200, kind)
    assert response.read()
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert "default-src 'none'; script-src 'self'" in response.headers["Content-Security-Policy"]


def test_head_request_gets_the_head_alone(page: LivePage) -> None:
    response = asked(page, method="HEAD")
    assert (response.status, response.read()) == (200, b"")


@pytest.mark.parametrize(
    ("status", "path", "method", "headers"),
    [
        (404, "/../../etc/passwd", "GET", {}),
        (404, "/%2e%2e/page.js", "GET", {}),
        (404, "//page.js", "GET", {}),
        (404, "/live.html", "GET", {}),
        (405, "/", "POST", {}),
        (405, "/events", "DELETE", {}),
        (405, "/", "OPTIONS", {}),
        (400, "/", "POST", {"Content-Length": "5"}),
        (400, "http://127.0.0.1/", "GET", {}),
        (421, "/", "GET", {"Host": "rebound.example"}),
        (421, "/", "GET", {"Host": "localhost.evil.com"}),
        (421, "/", "GET", {"Host": "127.0.0.1.evil.com"}),
        (421, "/", "GET", {"Host": "evil-localhost"}),
        (421, "/", "GET", {"Host": "evil.localhost"}),
        (421, "/", "GET", {"Host": "localhost@evil.com"}),
        (421, "/", "GET", {"Host": "192.168.0.1"}),
        (421, "/", "GET", {"Host": ""}),
        (421, "/", "GET", {"Host": "[::1"}),
        (403, "/events", "GET", {"Origin": "http://other.example"}),
        (403, "/events", "GET", {"Origin": "null"}),
        (403, "/events", "GET", {"Sec-Fetch-Site": "cross-site"}),
        (403, "/page.js", "GET", {"Sec-Fetch-Site": "same-site"}),
        (403, "/", "GET", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "iframe"}),
    ],
)
def test_request_that_is_refused(
    page: LivePage, status: int, path: str, method: str, headers: dict[str, str]
) -> None:
    response = asked(page, path, method, **headers)
    assert response.status == status
    assert "Set-Cookie" not in response.headers


def test_link_elsewhere_and_a_tunnel_of_another_port_lead_to_the_page(page: LivePage) -> None:
    assert asked(page, Sec_Fetch_Site="cross-site", Sec_Fetch_Dest="document").status == 200
    assert asked(page, Host="localhost:18000", Origin="http://localhost:18000").status == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: other\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 0\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", b"431"),
    ],
)
def test_text_that_is_no_request_gets_an_error_status(page: LivePage, sent: bytes, status: bytes) -> None:
    assert answer(page, sent).split(b" ")[1] == status


def test_client_that_never_finishes_its_request_is_disconnected() -> None:
    with opened(patience_s=0.1) as page:
        assert answer(page, b"GET / HTTP/1.1\r\n") == b""


def test_elsewhere_nothing_is_seen_without_the_token_of_the_link() -> None:
    with opened("0.0.0.0") as page:
        token = page.link.partition("?token=")[2]
        assert len(token) >= 32
        for path in ("/", "/page.js", "/events", "/?token=", "/?token=wrong", f"/?token={token[:-1]}"):
            refused = asked(page, path)
            assert refused.status == 403
            assert refused.read() == b"open the link that gputel tail printed: it contains a token\n"
        assert asked(page, "/", Cookie=f"gputel_{port(page)}=wrong").status == 403


def test_token_becomes_a_cookie_and_leaves_the_address() -> None:
    with opened("0.0.0.0") as page:
        token = page.link.partition("?token=")[2]
        let_in = asked(page, f"/?token={token}")
        assert (let_in.status, let_in.headers["Location"]) == (303, "/")
        cookie = let_in.headers["Set-Cookie"]
        assert cookie == f"gputel_{port(page)}={token}; Path=/; HttpOnly; SameSite=Lax"
        shown = asked(page, "/", Cookie=f"other=1; {cookie.partition(';')[0]}")
        assert shown.status == 200
        assert token.encode() not in shown.read()


def test_each_start_has_a_token_of_its_own_and_this_machine_alone_needs_none() -> None:
    with opened("0.0.0.0") as one, opened("0.0.0.0") as other, opened("localhost") as local:
        assert one.link.partition("?")[2] != other.link.partition("?")[2]
        assert "token" not in local.link


def test_visitor_gets_all_that_stands_and_then_what_changes(page: LivePage) -> None:
    with watching(page) as file:
        page.show(views(1))
        kind, _, result = event(file)
        assert (kind, steps(result)) == ("whole", [1])
        page.show(views(2))
        kind, _, result = event(file)
        assert (kind, steps(result), len(result)) == ("news", [2], 1)


def test_viewer_that_comes_back_gets_what_it_missed_and_one_of_another_server_everything(
    page: LivePage,
) -> None:
    with watching(page) as file:
        page.show(views(1))
        _, identity, _ = event(file)
    with watching(page, identity) as file:
        page.show(views(2))
        kind, _, result = event(file)
        assert (kind, steps(result)) == ("news", [2])
    for foreign in ("feedbeef-1", "1", "x-²", identity + "9"):
        with watching(page, foreign) as file:
            page.show(views(3))
            assert event(file)[0] == "whole"


def test_nothing_is_computed_without_a_viewer(page: LivePage) -> None:
    def never() -> Any:
        raise AssertionError("computed without a viewer")

    page.show(never)


def test_viewer_that_takes_nothing_is_let_go_and_the_others_see_everything() -> None:
    with opened(patience_s=0.3) as page, closing(socket.socket()) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", port(page)))
        slow.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        page.wait(PATIENCE_S)
        with watching(page) as file:
            step = 0
            while len(page.connections) == 2:
                step += 1
                page.show(views(step, points=1000))
                assert steps(event(file)[2]) == [step]
            assert step > 1


@contextmanager
def flood(page: LivePage, count: int, sent: bytes) -> Iterator[list[socket.socket]]:
    """Sockets of one address that have sent the same bytes."""
    sockets = [socket.create_connection(("127.0.0.1", port(page)), timeout=PATIENCE_S) for _ in range(count)]
    for each in sockets:
        with contextlib.suppress(OSError):  # closed already
            each.sendall(sent)
    yield sockets
    for each in sockets:
        each.close()


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HTTP/1.1\r\n", b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"],
    ids=["silent", "half a request", "idle streams"],
)
def test_viewer_is_served_during_a_flood_of_its_own_address(page: LivePage, sent: bytes) -> None:
    with flood(page, 300, sent):
        assert asked(page).status == 200
        with watching(page) as file:
            page.show(views(7))
            assert steps(event(file)[2]) == [7]
        assert len(page.connections) <= connections.MOST_OF_ADDRESS + 1


@pytest.mark.parametrize("number", ["9" * 5000, "1" * 19, "-1", "+1", "1_0"])
def test_last_event_id_of_any_kind_gets_the_full_state(page: LivePage, number: str) -> None:
    with watching(page) as file:
        page.show(views(1))
        _, identity, _ = event(file)
    boot = identity.partition("-")[0]
    with watching(page, f"{boot}-{number}") as file:
        page.show(views(2))
        assert event(file)[0] == "whole"


def test_kept_token_opens_the_page_of_the_next_start(tmp_path: Path) -> None:
    token = access.kept_token(tmp_path / "token")
    for _ in range(2):
        with closing(LivePage("0.0.0.0", 0, token=access.kept_token(tmp_path / "token"))) as page:
            assert page.link.endswith(f"?token={token}")
            assert asked(page, f"/?token={token}").status == 303


def test_port_that_is_taken_is_one_line(page: LivePage) -> None:
    with pytest.raises(GputelError) as caught:
        LivePage("127.0.0.1", port(page))
    expected = (
        f"--port {port(page)}: cannot listen there: address already in use; choose another, or leave it out"
    )
    assert str(caught.value) == expected
