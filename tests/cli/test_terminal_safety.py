"""Text that was read from files and arguments never acts on a terminal, whichever command prints it."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gputel.telemetry import events, identity, run_folder
from gputel.telemetry.clock import SECOND
from gputel.telemetry.store.tiers import Tier, TierColumn

CONTROLS = "".join(map(chr, [*range(1, 9), *range(11, 32), *range(0x7F, 0xA0)]))
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029"
NO_WIDTH = "\xad\u200b\u200c\u200d\u2060\u2063\ufeff\u034f\U000e0041"
SEQUENCES = (
    "\x1b]52;c;QQ==\x07\x1b\x1b[0m]52;c;QQ==\x07\x1b]0;title\x1b\\\x1b[2J\x1b[38;5;196m\x1b[6n\x1b[?1049h\x1bc\x1b#8"
    "\x1bP$q\x1b\\\x1b_a\x1b\\\x1b^p\x1b\\\x1bXs\x1b\\\x1bN\x1bO\x9d52;c;QQ==\x9c\x9b2J"
)
IN_NAME = (CONTROLS + BIDI + NO_WIDTH).replace("/", "")
IN_LINE = "".join(letter for letter in CONTROLS if letter not in "\r\x08") + BIDI + NO_WIDTH + SEQUENCES
HOSTILE = IN_LINE + "\r\x08\n\0 \udcff"
OURS = re.compile(r"\x1b\[(0|1|31|36)?m|\r|\x1b\[(\?25[lh]|K)")  # styles, and what a progress bar needs
LINES = (
    "lr{0} = 0.5{0}\nmodel: {0}\n"
    "step 1/9 | loss: 3.0 | dt: 100.00ms | x{0}: 2.0\nstep 2/9 | loss: 2.0 | dt: 100.00ms\n"
    "step 3/9 | loss: nan | dt: 100.00ms\n"
    "saved checkpoint {0}/step_2.pt\nwarning: {0}\nRuntimeError: CUDA out of memory {0}\nstep {0} | loss: {0}\n"
    "ValueError: {0}\n"
)
EVERY = """
import json, sys, traceback
from gputel.cli import main
for args in json.loads(sys.stdin.read()):
    sys.stdout.write(f"=== {ascii(args[0])[:9]}\\n")
    sys.stdout.flush()
    try:
        main(args)
    except SystemExit:
        pass
    except Exception:
        traceback.print_exc()
"""


def hostile(value: Any) -> Any:
    """Adds hostile text to every text and every name in facts."""
    if isinstance(value, str):
        return value + HOSTILE
    if isinstance(value, dict):
        return {name: hostile(each) for name, each in value.items()}
    return [hostile(each) for each in value] if isinstance(value, (list, tuple)) else value


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compose: Callable[..., None]) -> Path:
    """Two run folders and two logs, hostile in every text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    facts = identity.facts(["sh", "-c"], env=dict(os.environ), cwd=tmp_path, name="a", tags={"lr": "1"})
    facts |= {"tags": {HOSTILE: HOSTILE}, "simulated": "1xH100", "node": "n", "hostname": "host"}
    tier = Tier(
        "fast", 10.0, (TierColumn("power_w", "W", 1000, "0"), TierColumn(f"odd{IN_LINE}", "W", 1, "0"))
    )
    for number in (1, 2):
        whole: dict[str, Any] = {
            **hostile(facts),
            "gpus": [{"gpu": "0", "name": f"H100{HOSTILE}", "uuid": f"u{HOSTILE}"}],
            "started": {"wall_ns": 10**18},
            "ended": {"wall_ns": 10**18 + 10 * SECOND},
            "exit_code": 1,
        }
        segment = run_folder.create(tmp_path / f"run-{number}", whole)
        segment.gpu.rmdir()
        compose(segment.gpu, [tier], [(0, tick * SECOND // 10, [100_000, 5]) for tick in range(50)])
        events.append(segment.path, 10**18, "mark", f"mark {HOSTILE}")
        events.append(segment.path, 10**18, f"kind{HOSTILE}", f"text {HOSTILE}")
        segment.output.write_bytes(LINES.format(IN_LINE).encode())
    for number in (1, 2):
        (tmp_path / f"{number}{IN_NAME}.log").write_bytes(LINES.format(IN_LINE).encode())
    (tmp_path / "format.toml").write_text(f"title = {json.dumps('t' + IN_LINE)}\n")
    (tmp_path / ".git").mkdir()  # so that the folder's settings count
    text = "x" + "".join(f"\\U{ord(letter):08x}" for letter in IN_LINE)
    settings = (
        f'[tail]\non-alarm = "{text}"\n[alarms.spike]\nmetric = "{text}"\n[compare]\nmetric = "{text}"\n'
    )
    (tmp_path / "gputel.toml").write_text(settings)
    return tmp_path


def commands() -> Iterator[list[str]]:
    """Every command on hostile runs, logs, names and words."""
    logs = [f"1{IN_NAME}.log", f"2{IN_NAME}.log"]
    typed = f"typed{IN_LINE}".replace("\0", "")
    for json_too in ([], ["--json"]):
        yield from (["info", "run-1", *json_too], ["report", "run-1", *json_too])
        yield from (["compare", "run-1", "run-2", *json_too], ["compare", *logs, *json_too])
        yield from (["parse", "run-1", *logs, *json_too], ["formats", *json_too])
        yield ["gate", "run-1", "--baseline", "run-2", "--max-regress", f"loss{typed}=1%", *json_too]
        yield ["plan", "--check", "run-1", *json_too]
    yield from (["parse", logs[0], "--rows"], ["parse", *logs, "--rejects"], ["parse", typed])
    for view in ("--plain", "--json"):
        yield from (["tail", "run-1", view, "--fresh"], ["tail", logs[0], view, "--fresh", "--exit-on-alarm"])
    yield from ([command, typed] for command in ("info", "report", "compare", "export", "formats", typed))
    yield from (["info", f"--{typed}"], ["tail", "--plain", "--from", f"x{IN_NAME}"], ["mark", typed])
    yield from (
        ["settings"],
        ["settings", "--json"],
        ["settings", "tail", "--verbose"],
        ["trust", typed],
        ["doctor"],
    )
    yield from (["compare", *logs, "--metric", "loss", "--verbose"], ["trust"], ["trust", "--revoke"])
    yield from (["formats", "format.toml"], ["parse", logs[0], "--format", "format.toml"])
    yield from (["export", "run-1", "--csv", f"{typed[:60]}.csv"], ["parse", *logs, "--csv", "--out", "csv"])


def acting(printed: str) -> set[str]:
    return {
        letter for letter in printed if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    } - {"\n"}


def printed_in_pipe(**env: str) -> str:
    answer = subprocess.run(
        [sys.executable, "-c", EVERY],
        input=json.dumps(list(commands())).encode(),
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=600,
    )
    return answer.stdout.decode()


def printed_on_terminal() -> str:
    leader, follower = pty.openpty()
    args = Path("args.json")
    args.write_text(json.dumps(list(commands())))
    with (
        args.open() as stdin,
        subprocess.Popen([sys.executable, "-c", EVERY], stdin=stdin, stdout=follower, stderr=follower),
    ):
        os.close(follower)
        pieces: list[bytes] = []
        try:
            while piece := os.read(leader, 65_536):
                pieces.append(piece)
        except OSError:  # every process has closed its end
            os.close(leader)
    return b"".join(pieces).decode()


def crashed(printed: str) -> list[str]:
    return [part[:30] + part[-2000:] for part in printed.split("=== ") if "Traceback (most recent" in part]


def assert_harmless(printed: str) -> None:
    found = {part.partition("\n")[0]: acting(part) for part in printed.split("=== ")}
    assert {command: letters for command, letters in found.items() if letters} == {}
    assert crashed(printed) == []
    assert "\\x1b]52;c;QQ==\\x07" in printed
    assert "\\u202e" in printed
    assert "\\u200b" in printed


@pytest.mark.long
def test_hostile_text_does_not_act_in_a_pipe(runs: Path) -> None:
    printed = printed_in_pipe()
    assert_harmless(printed)
    rows = [line for line in printed.splitlines() if line.startswith('{"kind"')]
    assert [json.loads(row)["kind"] for row in rows].count("train") > 2


@pytest.mark.long
def test_hostile_text_does_not_act_on_a_terminal(runs: Path) -> None:
    printed = printed_on_terminal()
    assert_harmless(OURS.sub("", printed))


@pytest.mark.long
def test_text_that_the_encoding_lacks_ends_no_command(runs: Path) -> None:
    assert crashed(printed_in_pipe(PYTHONIOENCODING="latin-1")) == []
