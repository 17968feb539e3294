"""What settings files may set: the user's own anything, a folder's only what is harmless."""

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from gputel.cli import group
from gputel.cli.defaults import HARMLESS, HARMLESS_EVERYWHERE
from gputel.cli.help import COMMANDS
from tests.command import gputel

# Every option that a folder's file may not set. A new option fails here until it is in one of the two.
REFUSED = {
    "record": "gpus for out continue name tag simulate follow pid share-group pty inside stop-on stop-after budget "
    "grace then prometheus sync sync-rate sync-masked-output push",
    "parse": "learn out force max-bytes",
    "tail": "from fresh web port host on-alarm webhook notify exit-on-alarm prometheus token token-file",
    "report": "gpu log offset out force",
    "compare": "where out force",
    "runs": "engine address where sql no-update csv parquet out force",
    "gate": "baseline junit force",
    "plan": "like check out force",
    "info": "",
    "export": "csv parquet to out force",
    "sync": "remove",
    "nodes": "",
    "share": "to expires",
    "mark": "run",
    "stacks": "",
    "formats": "",
    "doctor": "simulate out sync",
    "demo": "out steps",
    "settings": "",
    "trust": "revoke",
}


def options(command: str) -> dict[str, click.Option]:
    loaded = group.get_command(click.Context(group), command)
    assert loaded is not None
    return {param.opts[0].lstrip("-"): param for param in loaded.params if isinstance(param, click.Option)}


@pytest.mark.parametrize("command", COMMANDS)
def test_option_is_declared_harmless_or_refused_to_folders(command: str) -> None:
    refused, harmless = set(REFUSED[command].split()), HARMLESS.get(command, frozenset())
    assert refused | harmless | HARMLESS_EVERYWHERE == set(options(command))
    assert not refused & harmless


@pytest.mark.parametrize("command", COMMANDS)
def test_no_harmless_option_is_a_path(command: str) -> None:
    declared = options(command)
    assert not [name for name in HARMLESS.get(command, ()) if isinstance(declared[name].type, click.Path)]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "config" / "gputel").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


NAN = b"step 1/9 | loss: 3.0 | dt: 100.00ms\nstep 2/9 | loss: nan | dt: 100.00ms\n"


def test_folder_runs_no_command_at_an_alarm(home: Path) -> None:
    Path("gputel.toml").write_text("[tail]\non-alarm = 'touch hit'\nbell = true\n")
    answer = gputel("tail", "-", given=NAN)
    assert "alarm:" in answer.stdout
    assert not Path("hit").exists()
    assert "\a" in answer.stderr
    assert (
        f"{home}/project/gputel.toml: [tail] on-alarm is ignored, as a folder's file may not set it; "
        f"allow it with 'gputel trust {home}/project/gputel.toml', "
        f"or use --on-alarm, GPUTEL_TAIL_ON_ALARM or {home}/config/gputel/config.toml\n"
    ) in answer.stderr


def test_folder_runs_no_command_after_a_recording() -> None:
    Path("pyproject.toml").write_text("[tool.gputel.record]\nthen = 'touch hit'\n")
    record = [sys.executable, "-m", "gputel", "record", "--simulate", "1xH100", "--out", "run", "--", "true"]
    answer = subprocess.run(record, capture_output=True, text=True, check=False)
    assert answer.returncode == 0
    assert "[record] then is ignored" in answer.stderr
    assert not Path("hit").exists()


def test_format_of_a_folder_is_the_name_of_a_shipped_one() -> None:
    Path("a.log").write_bytes(NAN)
    Path("gputel.toml").write_text("[parse]\nformat = ['nanochat']\n")
    assert "[parse] format is ignored" in gputel("parse", "a.log", "--json").stderr
    Path("gputel.toml").write_text("[parse]\nformat = 'own.toml'\n")
    answer = gputel("parse", "a.log", "--json")
    assert "[parse] format is ignored" in answer.stderr
    assert "own.toml" not in answer.stdout
    Path("gputel.toml").write_text("[parse]\nformat = 'nanochat'\n")
    assert "is ignored" not in gputel("parse", "a.log", "--json").stderr


def test_folder_sets_thresholds_of_alarms_and_no_patterns() -> None:
    Path("gputel.toml").write_text("[alarms.traceback]\nunless = '(a+)+$'\n[alarms.nan]\noff = true\n")
    answer = gputel("tail", "-", given=NAN)
    assert "alarm:" not in answer.stdout
    assert "[alarms.traceback] unless is ignored, as a folder's file may not set it; allow" in answer.stderr
    assert f"{Path.cwd()}/gputel.toml: changes alarms: nan.off = True\n" in answer.stderr


def test_file_of_the_user_sets_anything(home: Path) -> None:
    own = home / "config" / "gputel" / "config.toml"
    own.write_text("[tail]\non-alarm = 'touch hit'\n")
    answer = gputel("tail", "-", "--exit-on-alarm", given=NAN)
    assert (answer.returncode, answer.stderr) == (4, "")
    assert Path("hit").exists()


def test_flag_then_variable_then_users_file_then_folder_then_default(home: Path) -> None:
    own = home / "config" / "gputel" / "config.toml"
    own.write_text("[mark]\nrun = 'from-the-user'\n[record]\nhz = 'user'\n")
    Path("gputel.toml").write_text("[record]\nhz = 'folder'\n")
    variable = {"GPUTEL_RUN": "from-the-variable"}
    assert "error: from-the-flag: " in gputel("mark", "x", "--run", "from-the-flag", env=variable).stderr
    assert "error: from-the-variable: " in gputel("mark", "x", env=variable).stderr
    assert "error: from-the-user: " in gputel("mark", "x").stderr
    assert "'user' is not a valid float" in gputel("record", "--", "true").stderr
    own.unlink()
    assert "'folder' is not a valid float" in gputel("record", "--", "true").stderr
    assert "error: latest: " in gputel("mark", "x").stderr


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[record]\nhz = {a = 1}\n", "[record] hz is not a value of this option; write one value\n"),
        ("[record]\nmax-overhead = 2\n", "Invalid value for '--max-overhead': '2' is not a share"),
        ("record = 3\n", "'record' is not a table; write [record]\n"),
        ('[record]\n"\\u001b[2J" = 3\n', "'record' has no option '\\x1b[2J'; see 'gputel record --help'"),
    ],
)
def test_setting_that_is_no_value_ends_in_one_line(text: str, fault: str) -> None:
    Path("gputel.toml").write_text(text)
    answer = gputel("record", "--", "true")
    assert answer.returncode == 2
    assert fault in answer.stderr
    assert answer.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [command for command in COMMANDS if HARMLESS.get(command)])
def test_page_of_settings_names_what_a_folder_may_set(command: str) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "settings.md").read_text()
    (row,) = [
        line for line in page.splitlines() if line.startswith("|") and f"`{command}`" in line.split("|")[1]
    ]
    named = set(row.split("|")[2].replace("`", "").replace("(by name)", "").split())
    if command == "plan":
        assert named == {"all", "but", *REFUSED["plan"].split()}
    else:
        assert named == HARMLESS[command]


def test_trusted_file_sets_anything_until_its_settings_change(home: Path) -> None:
    file = Path("gputel.toml")
    file.write_text("[tail]\non-alarm = 'touch hit'\n")
    assert "[tail] on-alarm = 'touch hit'" in gputel("trust").stdout
    file.write_text("# a comment is no setting\n[tail]\non-alarm = 'touch hit'\n")
    answer = gputel("tail", "-", "--exit-on-alarm", given=NAN)
    assert (answer.returncode, answer.stderr) == (4, "")
    assert Path("hit").exists()
    Path("hit").unlink()
    file.write_text("[tail]\non-alarm = 'touch  hit'\n")
    assert "[tail] on-alarm is ignored" in gputel("tail", "-", given=NAN).stderr
    assert not Path("hit").exists()


def test_trust_ends_when_it_is_revoked_or_the_file_moves() -> None:
    Path("gputel.toml").write_text("[record]\nthen = 'touch hit'\n")
    gputel("trust")
    Path("copy").mkdir()
    Path("copy/gputel.toml").write_text(Path("gputel.toml").read_text())
    assert "was not trusted" in gputel("trust", "--revoke", "copy/gputel.toml").stderr
    assert "is no longer trusted" in gputel("trust", "--revoke").stderr
    assert "was not trusted" in gputel("trust", "--revoke").stderr


def test_file_that_any_user_may_write_is_never_trusted() -> None:
    Path("gputel.toml").write_text("[record]\nthen = 'touch hit'\n")
    Path("gputel.toml").chmod(0o666)
    answer = gputel("trust", "gputel.toml")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "can be written by any user" in answer.stderr


def test_settings_prints_each_option_its_value_and_its_origin(home: Path) -> None:
    Path("gputel.toml").write_text("[tail]\nprice = 4\n[alarms.nan]\noff = true\n")
    (home / "config" / "gputel" / "config.toml").write_text("[tail]\nbell = true\n")
    variables = {"GPUTEL_TAIL_WEBHOOK": "https://x.test/?token=abcdef0123456789abcdef0123456789"}
    answer = gputel("settings", "tail", "--json", env=variables)
    rows = {row["option"]: (row["value"], row["origin"]) for row in json.loads(answer.stdout)["settings"]}
    assert rows["price"] == ("4", f"{home}/project/gputel.toml")
    assert rows["bell"] == ("true", f"{home}/config/gputel/config.toml")
    assert rows["web"] == ("false", "default")
    assert rows["off"] == ("True", f"{home}/project/gputel.toml")
    assert rows["webhook"][1] == "GPUTEL_TAIL_WEBHOOK"
    assert "abcdef0123456789" not in answer.stdout


def test_settings_names_an_ignored_file_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home / "config"))
    Path("gputel.toml").write_text("[tail]\nprice = 4\n")
    assert gputel("settings").stderr.count("lies neither below your home") == 1


def test_settings_lists_every_option_of_every_command() -> None:
    rows = json.loads(gputel("settings", "--json").stdout)["settings"]
    assert {(row["command"], row["option"]) for row in rows} == {
        (command, name) for command in COMMANDS for name in options(command)
    }


def test_verbose_names_the_files_that_count_and_nothing_that_a_flag_overrides() -> None:
    Path("gputel.toml").write_text("[tail]\nprice = 4\nhours = 9\n")
    place = f"{Path.cwd()}/gputel.toml: [tail]"
    assert f"{place} price = 4\n{place} hours = 9\n" in gputel("tail", "--verbose").stderr
    assert "price" not in gputel("tail", "--verbose", "--price", "5").stderr
    assert "no settings file sets an option of 'info'" in gputel("info", "--verbose").stderr


def test_thresholds_of_a_folder_are_named_without_verbose() -> None:
    Path("gputel.toml").write_text("[gate]\nwarmup = 500\nphase = 'base'\n")
    answer = gputel("gate", "gone", "--target", "loss=2")
    assert answer.stderr.startswith(f"{Path.cwd()}/gputel.toml: [gate] warmup = 500\nerror: gone: ")


def test_value_that_an_option_does_not_take_names_the_file_that_holds_it() -> None:
    Path("a.log").write_bytes(NAN)
    Path("gputel.toml").write_text("[parse]\ncsv = '../x'\n")
    answer = gputel("parse", "a.log")
    assert answer.returncode == 2
    assert f"error: {Path('gputel.toml').resolve()}: Invalid value for '--csv'" in answer.stderr
    Path("gputel.toml").unlink()
    assert "error: gputel parse: Invalid value for '--dpi'" in gputel("parse", "a.log", "--dpi", "x").stderr


def test_settings_shows_options_without_a_value_as_empty() -> None:
    rows = json.loads(gputel("settings", "parse", "--json").stdout)["settings"]
    values = {row["option"]: row["value"] for row in rows}
    assert (values["format"], values["panel"], values["csv"]) == (None, None, "false")
    assert "Sentinel" not in str(values)
