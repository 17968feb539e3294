"""What the answers of a server mean, asked over a real connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType

import pytest

from gputel.telemetry.errors import GputelError
from gputel.telemetry.remote.receiver import TOKEN, USER, PushAnswer, Receiver

SECRET = "s3cr3t-t0k3n-of-mine"


class Server(ThreadingHTTPServer):
    """Answers each request as it was told to, and keeps what it was asked."""

    status, text = 204, ""
    headers: Mapping[str, str] = MappingProxyType({})
    asked: list[tuple[str, dict[str, str], bytes]]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, dict(self.headers), body))
        self.send_response(self.server.status)
        content = self.server.text.encode()
        for name, value in {**self.server.headers, "Content-Length": f"{len(content)}"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    serving = Server(("127.0.0.1", 0), Handler)
    serving.asked = []
    thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
    thread.start()
    yield serving
    serving.shutdown()
    thread.join()
    serving.server_close()


def answer_of(server: Server, env: dict[str, str] | None = None) -> PushAnswer:
    receiver = Receiver(server.address, env or {})
    try:
        return receiver.post(b"\0")
    finally:
        receiver.close()


@pytest.mark.parametrize(
    ("status", "text", "verdict"),
    [
        (200, "", "taken"),
        (204, "", "taken"),
        (301, "", "later"),
        (400, "duplicate sample for timestamp", "refused"),
        (401, "", "later"),
        (403, "", "later"),
        (404, "", "later"),
        (408, "", "later"),
        (413, "", "refused"),
        (422, "", "refused"),
        (429, "", "later"),
        (500, "too old sample", "refused"),
        (500, "out of order sample", "refused"),
        (500, "out of bounds", "refused"),
        (500, "disk full", "later"),
        (503, "", "later"),
    ],
)
def test_answer_says_whether_samples_are_ever_taken(
    server: Server, status: int, text: str, verdict: str
) -> None:
    server.status, server.text = status, text
    assert answer_of(server).verdict == verdict


@pytest.mark.parametrize(("text", "seconds"), [("7", 7), ("99999", 300), ("soon", 0), ("-1", 0), ("nan", 0)])
def test_server_that_wants_to_be_left_alone_is(server: Server, text: str, seconds: float) -> None:
    server.status, server.headers = 429, {"Retry-After": text}
    assert answer_of(server).wait_s == seconds


def test_clock_of_the_server_is_read(server: Server) -> None:
    server.headers = {"Date": "Sat, 21 Nov 2026 01:35:00 GMT"}
    receiver = Receiver(server.address, {})
    receiver.post(b"\0")
    receiver.close()
    assert answer_of(server).date_s is not None


def test_request_is_one_of_remote_write(server: Server) -> None:
    answer_of(server, {USER: "d16", TOKEN: "x"})
    (path, headers, body), *_ = server.asked
    assert (path, body) == ("/api/v1/write", b"\0")
    assert headers["Content-Encoding"] == "snappy"
    assert headers["Authorization"] == "Basic ZDE2Ong="
    answer_of(server, {TOKEN: "x"})
    assert server.asked[-1][1]["Authorization"] == "Bearer x"


def test_token_stands_in_no_text(server: Server) -> None:
    server.status, server.text = 401, f"the token {SECRET} has expired\nand more"
    assert (
        answer_of(server, {TOKEN: SECRET}).text
        == f"answers 401: the token *** has expired; check {TOKEN} and {USER}"
    )


def test_connection_that_the_server_has_closed_is_opened_again(server: Server) -> None:
    server.headers = {"Connection": "close"}
    receiver = Receiver(server.address, {})
    assert [receiver.post(b"\0").verdict for _ in range(3)] == ["taken"] * 3
    receiver.close()


def test_server_that_is_away_is_asked_later() -> None:
    answer = Receiver("http://127.0.0.1:1", {}).post(b"\0")
    assert (answer.verdict, answer.text) == ("later", "cannot be reached: Connection refused")


@pytest.mark.parametrize(
    ("address", "env", "fault"),
    [
        ("s3://bucket/d16", {}, "is no address to push to"),
        ("http://", {}, "is no address to push to"),
        ("http://host:port", {}, "is no address to push to"),
        ("https://me:pass@host/", {}, "a key must not be"),
        ("http://metrics.example.com", {TOKEN: SECRET}, "would cross the network unencrypted"),
        ("https://metrics.example.com", {TOKEN: f"{SECRET}\n"}, "holds a character that no token has"),
    ],
)
def test_address_that_cannot_work_is_refused(address: str, env: dict[str, str], fault: str) -> None:
    with pytest.raises(GputelError, match=fault) as refused:
        Receiver(address, env)
    assert refused.value.exit_code == 2
    assert SECRET not in str(refused.value)
    assert "me:pass" not in str(refused.value)
