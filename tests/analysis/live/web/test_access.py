"""Who may see the live page."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputel.analysis.live.web import access
from gputel.analysis.live.web.access import AccessCheck, Request
from gputel.telemetry.errors import GputelError


def request(path: str = "/", query: str = "", method: str = "GET", **headers: str) -> Request:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(method, path, query, {"host": "localhost:8765", **names})


@pytest.mark.parametrize(
    ("host", "is_local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False)],
)
def test_token_is_needed_only_on_an_address_that_others_reach(host: str, is_local: bool) -> None:
    assert (AccessCheck(host, 8765).token is None) is is_local


def test_link_of_every_address_names_this_machine_and_brackets_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "node7")
    everywhere = AccessCheck("0.0.0.0", 8765)
    assert everywhere.link == f"http://node7:8765/?token={everywhere.token}"
    assert AccessCheck("::1", 8765).link == "http://[::1]:8765/"


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("localhost", None),
        ("node7", None),
        ("NODE7.cluster:8765", None),
        ("10.0.0.7:80", None),
        ("rebound.example", 421),
        ("localhost.evil.com", 421),
    ],
)
@pytest.mark.parametrize("served_at", ["127.0.0.1", "0.0.0.0"])
def test_host_header_must_name_this_machine(
    name: str, status: int | None, served_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "node7.cluster")
    check = AccessCheck(served_at, 8765, "a-token-of-the-test")
    refusal = check.refusal(request(query=f"token={check.token}", host=name))
    assert (refusal and refusal.status) == status


def test_cookie_and_token_let_in_and_neither_alone_of_another_start() -> None:
    check, other = AccessCheck("0.0.0.0", 8765), AccessCheck("0.0.0.0", 8765)
    assert check.refusal(request(query=f"token={check.token}")) is None
    assert check.refusal(request(cookie=check.cookie.partition(";")[0])) is None
    for stranger in (request(query=f"token={other.token}"), request(cookie=other.cookie.partition(";")[0])):
        refusal = check.refusal(stranger)
        assert refusal is not None
        assert refusal.status == 403


@pytest.mark.parametrize("cookie", ["", "gputel_8765", "gputel_8765=\xff", "=;=;=", 'gputel_8765="\\377'])
def test_damaged_cookie_is_no_cookie(cookie: str) -> None:
    refusal = AccessCheck("0.0.0.0", 8765).refusal(request(cookie=cookie))
    assert refusal is not None
    assert refusal.status == 403


def test_request_is_read_with_its_path_query_and_headers() -> None:
    head = b"GET /events?token=a%20b HTTP/1.1\r\nHost: localhost\r\nX-Two:  a: b \r\n\r\n"
    assert access.read(head) == Request(
        "GET", "/events", "token=a%20b", {"host": "localhost", "x-two": "a: b"}
    )


@pytest.mark.parametrize(
    "lines",
    [
        "GET /",
        "GET / FTP/1.1",
        "GET  / HTTP/1.1",
        "GET http://localhost/ HTTP/1.1",
        "GET / HTTP/1.1\r\nno colon",
        "GET / HTTP/1.1\r\n: empty name",
        "GET / HTTP/1.1\r\nHost : localhost",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b",
        "POST / HTTP/1.1\r\nContent-Length: 5",
        "GET / HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 0",
        "GET / HTTP/1.1\r\nContent-Length: 0, 0",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked",
    ],
)
def test_malformed_request_is_none(lines: str) -> None:
    assert access.read(f"{lines}\r\n\r\n".encode()) is None


def test_named_token_is_needed_on_a_loopback_address_too() -> None:
    check = AccessCheck("127.0.0.1", 8765, "a-token-of-one-s-own")
    assert check.link == "http://127.0.0.1:8765/?token=a-token-of-one-s-own"
    refusal = check.refusal(request())
    assert refusal is not None
    assert refusal.status == 403


def test_token_file_is_made_for_its_owner_alone_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = access.kept_token(path)
    assert len(token) >= 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert access.kept_token(path) == token


def test_token_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    access.kept_token(path)
    path.chmod(0o644)
    with pytest.raises(GputelError) as error:
        access.kept_token(path)
    assert str(error.value) == f"--token-file {path}: other users can read it; chmod 600 {path}"


@pytest.mark.parametrize(
    "token", ["", "short", "with a space in its middle", "semicolon;semicolon;", "ü" * 20]
)
def test_weak_token_is_refused(token: str) -> None:
    with pytest.raises(
        GputelError, match=r"^--token: is not a token of at least 16 letters, digits, - and _; "
    ):
        access.checked_token(token, "--token")


@pytest.mark.parametrize(
    ("host", "private"),
    [
        ("10.0.0.7:9400", True),
        ("[2001:db8::1]:9400", True),
        ("node7:9400", True),
        ("gputel.monitoring.svc", True),
        ("gputel.monitoring.svc.cluster.local:9400", True),
        ("rebound.example", False),
        ("localhost.evil.com", False),
        ("evil.com.", False),
        ("", False),
        ("[::1", False),
    ],
)
def test_private_name_is_one_that_no_site_can_have(host: str, *, private: bool) -> None:
    assert access.is_private(host) is private


@pytest.mark.parametrize(
    ("host", "environment", "command"),
    [
        ("127.0.0.1", {"SSH_CONNECTION": "192.0.2.1 50000 10.0.0.7 22", "USER": "ada"}, "ada@10.0.0.7"),
        ("localhost", {"SSH_CONNECTION": "192.0.2.1 50000 10.0.0.7 2222"}, "-p 2222 10.0.0.7"),
        ("0.0.0.0", {"SSH_CONNECTION": "192.0.2.1 50000 10.0.0.7 22"}, None),
        ("127.0.0.1", {"SSH_CONNECTION": "damaged"}, None),
        ("127.0.0.1", {}, None),
    ],
)
def test_tunnel_is_the_ssh_command_of_a_remote_session(
    host: str, environment: dict[str, str], command: str | None
) -> None:
    tunnel = AccessCheck(host, 8765).tunnel(environment)
    assert tunnel == (command and f"ssh -N -L 8765:localhost:8765 {command}")
