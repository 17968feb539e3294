"""Alarms leave the program: to real commands and a real server."""

import json
import shlex
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from gputel.analysis.alarms.watch import Alarm
from gputel.analysis.live.notify import Apprise, Channel, Notice, Notifier, NotifyCommand, Webhook
from gputel.telemetry.characters import visible_line
from gputel.telemetry.errors import GputelError

ALARM = Alarm("nan", "NaN or infinite loss", "on", "loss", "loss is NaN", 61, 1e9)
HOSTILE = "d16; touch $(echo owned) `id` '\" {text} \n --exec"


def delivered(channel: Channel, run: str = "d16") -> list[str]:
    """The reports of trouble."""
    troubles: list[str] = []
    notifier = Notifier([channel], troubles.append, pauses_s=(0.0, 0.0, 0.0))
    notifier.send(Notice(run, ALARM))
    notifier.send(Notice(run, ALARM))
    # Closing cuts pauses short, so the last word waits until both were tried as often as they are.
    while not notifier._notices.empty():
        threading.Event().wait(0.001)
    notifier.close()
    return troubles


class Server(HTTPServer):
    def __init__(self, answers: list[int]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.bodies = answers, list[dict[str, object]]()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/services/T0/secret"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.server.answers.pop(0) if self.server.answers else 200)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    serving = Server(getattr(request, "param", []))
    thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield serving
    serving.shutdown()
    thread.join()
    serving.server_close()


def test_command_gets_each_field_as_one_word_and_no_shell_sees_it(tmp_path: Path) -> None:
    out = tmp_path / "argv.json"
    script = tmp_path / "hook.py"
    script.write_text("import json, sys; open(sys.argv[1], 'w').write(json.dumps(sys.argv[2:]))")
    hook = NotifyCommand(
        f"{sys.executable} {script} {out} '{{rule}} of {{run}}' {{state}} {{step}} {{text}} {{other}}"
    )
    assert delivered(hook, HOSTILE) == []
    assert json.loads(out.read_text()) == [
        "nan of " + HOSTILE.replace("\n", "\\x0a"),
        "on",
        "61",
        "loss is NaN",
        "{other}",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["argv.json", "hook.py"]


def test_command_that_fails_or_is_missing_is_reported_once_each() -> None:
    assert (
        delivered(NotifyCommand("false"))
        == ["command 'false': 'nan' was not delivered: it exited with code 1"] * 2
    )
    assert (
        delivered(NotifyCommand("no-such-program"))
        == ["command 'no-such-program': 'nan' was not delivered: No such file or directory"] * 2
    )


def test_secrets_leave_only_masked(server: Server, tmp_path: Path) -> None:
    """By every channel: each gets its notice from one place."""
    alarm = replace(ALARM, text="Error at https://me:hunter2@db: HF_TOKEN=hunter2")
    notice = Notice("d16 --api-key=hunter2", alarm)
    Webhook(server.url).send(notice)
    out = tmp_path / "text"
    write = "import sys; open(sys.argv[1], 'w').write(sys.argv[2] + sys.argv[3])"
    NotifyCommand(f"{sys.executable} -c {shlex.quote(write)} {out} {{text}} {{run}}").send(notice)
    for text in (json.dumps(server.bodies), out.read_text(), notice.line):
        assert "hunter2" not in text
        assert "HF_TOKEN=***" in text
        assert "--api-key=***" in text


@pytest.mark.parametrize(
    "character", ["\x00", "\x1b]52;c;aGk=\x07", "\x9b31m", "\r", "\n", "\u202e", "\u200b", "\udc80"]
)
def test_command_gets_characters_that_act_or_hide_as_codes(tmp_path: Path, character: str) -> None:
    """A null byte or half a surrogate pair cannot be an argument at all: it ended the thread that delivers."""
    out = tmp_path / "text"
    write = "import sys; open(sys.argv[1], 'w').write(sys.argv[2] + sys.argv[3])"
    notice = Notice(f"d16{character}", replace(ALARM, text=f"loss{character}is NaN"))
    NotifyCommand(f"{sys.executable} -c {shlex.quote(write)} {out} {{text}} {{run}}").send(notice)
    assert out.read_text() == f"loss{visible_line(character)}is NaNd16{visible_line(character)}"
    assert out.read_text().isascii()
    assert out.read_text().isprintable()


def test_webhook_gets_the_facts_as_json(server: Server) -> None:
    assert delivered(Webhook(server.url)) == []
    assert server.bodies[0] == {
        "schema": 1,
        "run": "d16",
        "line": "d16: NaN or infinite loss at step 61: loss is NaN",
        "time": "2001-09-09T01:46:40.000000000Z",
        "rule": "nan",
        "what": "NaN or infinite loss",
        "state": "on",
        "key": "loss",
        "text": "loss is NaN",
        "step": 61,
        "at_s": 1e9,
    }


@pytest.mark.parametrize("server", [[503, 429]], indirect=True)
def test_server_that_is_busy_is_tried_again(server: Server) -> None:
    assert delivered(Webhook(server.url)) == []
    assert len(server.bodies) == 4


@pytest.mark.parametrize("server", [[404, 404]], indirect=True)
def test_address_that_is_wrong_is_reported_without_its_secret(server: Server) -> None:
    troubles = delivered(Webhook(server.url))
    assert troubles == ["webhook at 127.0.0.1: 'nan' was not delivered: it answered 404"] * 2
    assert len(server.bodies) == 2


def test_server_that_is_gone_is_reported_after_the_last_try() -> None:
    gone = Server([])
    gone.server_close()
    assert (
        delivered(Webhook(gone.url))
        == ["webhook at 127.0.0.1: 'nan' was not delivered: Connection refused"] * 2
    )


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: NotifyCommand("say 'x"), "--on-alarm: no closing quotation; close the quotes"),
        (lambda: NotifyCommand(" "), "--on-alarm: names no command; write e.g. 'notify-send {rule} {run}'"),
        (lambda: Webhook("ftp://x/secret"), "--webhook: is not a web address; it starts with https://"),
    ],
)
def test_text_that_is_no_address_is_a_line_at_the_start(make: object, line: str) -> None:
    with pytest.raises(GputelError) as caught:
        make()  # type: ignore[operator]
    assert str(caught.value) == line


def test_apprise_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(
        GputelError, match=r"^--notify: apprise is not installed; pip install 'gputel\[apprise\]'$"
    ):
        Apprise("slack://token")
