"""What settings files may set: the user's own anything, a folder's only what is harmless."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from gputel.cli import COMMANDS, group
from gputel.cli.defaults import HARMLESS

# Every option that a folder's file may not set. A new option fails here until somebody has decided.
REFUSED = {
    "record": "gpus for out continue name tag simulate follow pid share-group pty stop-on stop-after budget grace "
    "then prometheus",
    "parse": "learn out force",
    "tail": "from fresh web port host on-alarm webhook notify exit-on-alarm prometheus",
    "report": "gpu log offset out force",
    "compare": "out force",
    "gate": "baseline junit force",
    "plan": "like check out force",
    "info": "",
    "export": "csv parquet force",
    "mark": "run",
    "formats": "",
    "doctor": "simulate out",
    "demo": "out steps",
}


def options(command: str) -> dict[str, click.Option]:
    loaded = group.get_command(click.Context(group), command)
    assert loaded is not None
    return {param.opts[0].lstrip("-"): param for param in loaded.params if isinstance(param, click.Option)}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_declared_harmless_or_refused_to_folders(command: str) -> None:
    refused, harmless = set(REFUSED[command].split()), HARMLESS.get(command, frozenset())
    assert refused | harmless == set(options(command))
    assert not refused & harmless


@pytest.mark.parametrize("command", COMMANDS)
def test_no_harmless_option_is_a_path(command: str) -> None:
    known = options(command)
    assert not [name for name in HARMLESS.get(command, ()) if isinstance(known[name].type, click.Path)]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "config" / "gputel").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def gputel(*args: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gputel", *args]
    return subprocess.run(
        command, capture_output=True, text=True, input=stdin, env={**os.environ, **env}, check=False
    )


NAN = "step 1/9 | loss: 3.0 | dt: 100.00ms\nstep 2/9 | loss: nan | dt: 100.00ms\n"


def test_a_folder_runs_no_command_at_an_alarm(home: Path) -> None:
    Path("gputel.toml").write_text("[tail]\non-alarm = 'touch hit'\nbell = true\n")
    answer = gputel("tail", "-", stdin=NAN)
    assert "alarm:" in answer.stdout
    assert not Path("hit").exists()
    assert "\a" in answer.stderr
    assert (
        f"{home}/project/gputel.toml: [tail] on-alarm is ignored, as a folder's file may not set it; "
        f"use --on-alarm, GPUTEL_TAIL_ON_ALARM or {home}/config/gputel/config.toml\n"
    ) in answer.stderr


def test_a_folder_runs_no_command_after_a_recording() -> None:
    Path("pyproject.toml").write_text("[tool.gputel.record]\nthen = 'touch hit'\n")
    answer = gputel("record", "--simulate", "1xH100", "--out", "run", "--", "true")
    assert answer.returncode == 0
    assert "[record] then is ignored" in answer.stderr
    assert not Path("hit").exists()


def test_a_format_of_a_folder_is_the_name_of_a_shipped_one() -> None:
    Path("a.log").write_text(NAN)
    Path("gputel.toml").write_text("[parse]\nformat = 'own.toml'\n")
    answer = gputel("parse", "a.log", "--json")
    assert "[parse] format is ignored" in answer.stderr
    assert "own.toml" not in answer.stdout
    Path("gputel.toml").write_text("[parse]\nformat = 'nanochat'\n")
    assert "is ignored" not in gputel("parse", "a.log", "--json").stderr


def test_a_folder_sets_thresholds_of_alarms_and_no_patterns() -> None:
    Path("gputel.toml").write_text("[alarms.traceback]\nunless = '(a+)+$'\n[alarms.nan]\noff = true\n")
    answer = gputel("tail", "-", stdin=NAN)
    assert "alarm:" not in answer.stdout
    assert "[alarms.traceback] unless is ignored, as a folder's file may not set it; use" in answer.stderr


def test_the_users_own_file_sets_anything(home: Path) -> None:
    own = home / "config" / "gputel" / "config.toml"
    own.write_text("[tail]\non-alarm = 'touch hit'\n")
    answer = gputel("tail", "-", "--exit-on-alarm", stdin=NAN)
    assert (answer.returncode, answer.stderr) == (4, "")
    assert Path("hit").exists()


def test_flag_then_variable_then_users_file_then_folder_then_default(home: Path) -> None:
    own = home / "config" / "gputel" / "config.toml"
    own.write_text("[mark]\nrun = 'from-the-user'\n[record]\nhz = 'user'\n")
    Path("gputel.toml").write_text("[record]\nhz = 'folder'\n")
    variable = {"GPUTEL_RUN": "from-the-variable"}
    assert "error: from-the-flag: " in gputel("mark", "x", "--run", "from-the-flag", **variable).stderr
    assert "error: from-the-variable: " in gputel("mark", "x", **variable).stderr
    assert "error: from-the-user: " in gputel("mark", "x").stderr
    assert "'user' is not a valid float" in gputel("record", "--", "true").stderr
    own.unlink()
    assert "'folder' is not a valid float" in gputel("record", "--", "true").stderr
    assert "error: latest: " in gputel("mark", "x").stderr


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[record]\nhz = {a = 1}\n", "[record] hz is no value of this option; write one value\n"),
        ("[record]\nmax-overhead = 2\n", "Invalid value for '--max-overhead': '2' is not a share"),
        ("record = 3\n", "'record' is not a table; write [record]\n"),
        ('[record]\n"\\u001b[2J" = 3\n', "'record' has no option '\\x1b[2J'; see 'gputel record --help'"),
    ],
)
def test_a_setting_that_is_no_value_ends_in_one_line(text: str, fault: str) -> None:
    Path("gputel.toml").write_text(text)
    answer = gputel("record", "--", "true")
    assert answer.returncode == 2
    assert fault in answer.stderr
    assert answer.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [command for command in COMMANDS if HARMLESS.get(command)])
def test_the_page_of_settings_names_what_a_folder_may_set(command: str) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "settings.md").read_text()
    (row,) = [
        line for line in page.splitlines() if line.startswith("|") and f"`{command}`" in line.split("|")[1]
    ]
    named = set(row.split("|")[2].replace("`", "").replace("(by name)", "").split())
    if command == "plan":
        assert named == {"all", "but", *REFUSED["plan"].split()}
    else:
        assert named == HARMLESS[command]
