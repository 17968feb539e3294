"""What every command has in common."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import click
import pytest

from gputel.cli import group, main
from gputel.cli.help import COMMANDS
from tests.command import gputel

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"torch", "numpy", "pandas", "polars", "matplotlib", "plotly", "textual", "rich", "pynvml"}


@pytest.mark.parametrize("command", COMMANDS)
def test_command_has_help_a_page_and_a_mention_in_the_readme(command: str) -> None:
    shown = gputel(command, "--help")
    assert shown.returncode == 0
    assert shown.stdout.startswith(f"Usage: gputel {command} ")
    assert (ROOT / "docs" / f"{command}.md").read_text().startswith("# gputel " + command)
    assert f"gputel {command}" in (ROOT / "README.md").read_text()
    assert f"docs/{command}.md" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_a_command_stands_on_its_page(command: str) -> None:
    page = (ROOT / "docs" / f"{command}.md").read_text()
    loaded = group.get_command(None, command)  # type: ignore[arg-type]
    assert loaded is not None
    options = [option for parameter in loaded.params for option in parameter.opts if option.startswith("--")]
    options.remove("--verbose")  # every command has it: docs/settings.md
    assert [option for option in options if f"`{option}" not in page and f"{option} " not in page] == []


LOADS = """
import sys, gputel
print("import", *sys.modules, file=sys.stderr)
from gputel.cli import COMMANDS, main
for command in ["", *COMMANDS]:
    try:
        main([*command.split(), "--help"])
    except SystemExit:
        print(command, *sys.modules, file=sys.stderr)
"""


def test_neither_import_nor_any_help_loads_anything_heavy() -> None:
    """One process asks for all, so the first that loads something is named, and those after it too."""
    answer = subprocess.run([sys.executable, "-c", LOADS], capture_output=True, text=True, check=True)
    lines = [line.split(" ") for line in answer.stderr.splitlines()]
    assert len(lines) == 2 + len(COMMANDS)
    assert [(line[0], heavy) for line in lines if (heavy := HEAVY & set(line[1:]))] == []


def test_a_command_ends_without_a_search_for_garbage() -> None:
    looks = "atexit.register(lambda: print(gc.get_freeze_count() > 0, len(gc.get_objects()) < 1000))"
    code = f"import atexit, gc; {looks}; from gputel.cli import main; main(['--version'])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[1:] == ["True True"]


def test_help_lists_the_commands_in_the_order_in_which_people_meet_them() -> None:
    shown = gputel("--help").stdout
    places = [shown.index(f"\n  {command} ") for command in COMMANDS]
    assert places == sorted(places)


def test_help_says_of_each_command_what_it_is_for_on_a_terminal_of_eighty_columns() -> None:
    lines = gputel("--help").stdout.split("Commands:\n")[1].split("\n\n")[0].splitlines()
    assert [line for line in lines if line.endswith("...") or len(line) > 80] == []


def test_gputel_alone_shows_five_things_that_people_do() -> None:
    answer = gputel()
    assert (answer.returncode, answer.stdout) == (2, "")
    shown = [line.split("  ")[-1].strip() for line in answer.stderr.splitlines() if "  gputel " in line]
    assert [words.split()[1] for words in shown] == ["record", "tail", "report", "compare", "plan"]
    assert max(map(len, answer.stderr.splitlines())) <= 80


def test_help_imports_no_command() -> None:
    script = (
        "import sys\nfrom gputel.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(answer.stderr.split())
    assert not loaded & {
        *(f"gputel.cli.{name}" for name in COMMANDS),
        "gputel.cli.defaults",
        "json",
        "hashlib",
    }


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["recrod"], "error: gputel: No such command 'recrod' (did you mean 'record'?); see"),
        (["demo", "--out", __file__], f"error: {__file__}: is a file, not a folder; choose another --out"),
        (["info", "--hx"], "error: gputel info: No such option '--hx'"),
        (["info", "gone"], "error: gone: no such file or folder"),
    ],
)
def test_error_is_one_line_without_a_traceback(args: list[str], line: str, tmp_path: Path) -> None:
    answer = gputel(*args, cwd=tmp_path)
    assert answer.stderr.startswith(line)
    assert answer.stderr.count("\n") == 1
    assert answer.stdout == ""


def test_wrong_usage_is_2_and_failure_is_1(tmp_path: Path) -> None:
    assert gputel("info", "--hx", cwd=tmp_path).returncode == 2
    assert gputel("info", "gone", cwd=tmp_path).returncode == 1
    command = [sys.executable, "-m", "gputel", "info", "gone"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 1


def test_warning_of_a_library_is_one_line_that_does_not_act(capsys: pytest.CaptureFixture[str]) -> None:
    """It may quote a log."""
    with warnings.catch_warnings():
        with pytest.raises(SystemExit):
            main(["--version"])
        capsys.readouterr()
        warnings.simplefilter("always")
        warnings.warn_explicit("loss \x1b[2J\u202e", RuntimeWarning, "library.py", 7)
    assert capsys.readouterr().err == "library.py:7: RuntimeWarning: loss \\x1b[2J\\u202e\n"


def test_setting_that_no_command_has_is_named(tmp_path: Path) -> None:
    (tmp_path / "gputel.toml").write_text("[info]\njsn = true\n")
    answer = gputel("info", cwd=tmp_path, env={"HOME": str(tmp_path)})
    assert answer.returncode == 2
    assert answer.stderr == (
        f"error: {tmp_path}/gputel.toml: 'info' has no option 'jsn'; see 'gputel info --help'\n"
    )


def test_every_option_can_be_set_by_a_variable_of_its_name(tmp_path: Path) -> None:
    answer = gputel("info", "gone", cwd=tmp_path, env={"GPUTEL_INFO_JSON": "maybe"})
    assert answer.returncode == 2
    assert "'maybe' is not a valid boolean" in answer.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_and_options() -> None:
    script = f"""
        PATH="{Path(sys.executable).parent}:$PATH"
        eval "$(_GPUTEL_COMPLETE=bash_source gputel)"
        complete -p gputel >/dev/null || exit 9
        COMP_WORDS=(gputel inf); COMP_CWORD=1; _gputel_completion gputel; echo "${{COMPREPLY[@]}}"
        COMPREPLY=(); COMP_WORDS=(gputel info --j); COMP_CWORD=2
        _gputel_completion gputel; echo "${{COMPREPLY[@]}}"
    """
    answer = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["info", "--json"]


FISH = """
    set -x PATH {tools} $PATH
    _GPUTEL_COMPLETE=fish_source gputel | source
    complete -C "gputel {line}"
"""


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("inf", ["info"]),
        ("info --j", ["--json"]),
        ("plan --on 8xH100-N", ["8xH100-NVL"]),
        ("record --stop-on nan,stal", ["nan,stalled"]),
    ],
)
def test_fish_completes_commands_options_and_values(line: str, offered: list[str]) -> None:
    script = FISH.format(tools=Path(sys.executable).parent, line=line)
    answer = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, check=True)
    assert [each.split("\t")[0] for each in answer.stdout.splitlines()] == offered


ZSH = """
    PATH="{tools}:$PATH"
    autoload -Uz compinit && compinit -u -d {dump}
    eval "$(_GPUTEL_COMPLETE=zsh_source gputel)"
    echo "for gputel: $_comps[gputel]"
    compadd() {{ [[ "$*" == *-a* ]] && print -l -- ${{(P)@[-1]}}; }}
    _describe() {{ print -l -- ${{(P)3}}; }}
"""
ZSH_LINES = {"inf": "info", "info --j": "--json", "record --stop-on nan,stal": "nan,stalled"}


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_completes_commands_options_and_values(tmp_path: Path) -> None:
    script = ZSH.format(tools=Path(sys.executable).parent, dump=tmp_path / "dump")
    script += "".join(f"words=(gputel {line}); CURRENT=$#words; _gputel_completion\n" for line in ZSH_LINES)
    answer = subprocess.run(["zsh", "-f", "-c", script], capture_output=True, text=True, check=True)
    first, *values = answer.stdout.splitlines()
    assert first == "for gputel: _gputel_completion"
    assert [value.partition(":")[0] for value in values] == [*ZSH_LINES.values()]


def test_a_recording_is_completed_without_files_that_share_its_beginning(tmp_path: Path) -> None:
    """Beside `runs/r2`, zsh completes the file `runs/` to `runs`: what both begin with."""
    (tmp_path / "runs" / "r2").mkdir(parents=True)
    (tmp_path / "runs" / "r2" / "run.json").write_text("{}")
    env = {"_GPUTEL_COMPLETE": "bash_complete", "COMP_CWORD": "2"}
    begun = {"runs/": "plain,runs/r2", "runs/r2/": "file,runs/r2/", "ru": "file,ru"}
    answers = {
        word: gputel(cwd=tmp_path, env={**env, "COMP_WORDS": f"gputel report {word}"}).stdout.strip()
        for word in begun
    }
    assert answers == begun


def completed(*words: str, cwd: Path | None = None) -> list[str]:
    """What bash is offered for the last of the words."""
    env = {"_GPUTEL_COMPLETE": "bash_complete", "COMP_WORDS": shlex.join(["gputel", *words])}
    answer = gputel(cwd=cwd, env={**env, "COMP_CWORD": str(len(words))})
    return [line.partition(",")[2] for line in answer.stdout.splitlines() if line.startswith("plain,")]


def test_name_that_a_shell_would_run_is_not_offered(tmp_path: Path) -> None:
    """Bash inserts it unquoted; Enter would run it, or a terminal obey it."""
    for name in ("r2", "dæpth-1,5", "$(touch owned)", "`touch owned`", "a;touch owned", "\x1b]0;owned\x07"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").write_text("{}")
    assert completed("report", "runs/", cwd=tmp_path) == ["runs/dæpth-1,5", "runs/r2"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["report", ""], ["latest", "runs/r2", "runs/r10"]),
        (["report", "runs/"], ["runs/r2", "runs/r10"]),
        (["gate", "x", "--baseline", "lat"], ["latest"]),
        (["plan", "--on", "8xH20"], ["8xH200", "8xH200-NVL", "8xH20"]),
        (["record", "--simulate", "2xA1"], ["2xA100"]),
        (["parse", "--format", "build"], ["build-nanogpt"]),
        (["formats", "torchti"], ["torchtitan"]),
        (["record", "--stop-on", "nan,over"], ["nan,overfit"]),
        (["compare", "--by", "tok"], ["tokens"]),
    ],
)
def test_values_are_completed(words: list[str], offered: list[str], tmp_path: Path) -> None:
    for name in ("r10", "r2"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").write_text("{}")
    assert completed(*words, cwd=tmp_path) == offered


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_two_examples_whose_options_exist(command: str) -> None:
    shown = gputel(command, "--help", env={"COLUMNS": "80"}).stdout
    examples = shown.split("Examples:\n")[1].split("\n\n")[0].splitlines()
    assert len(examples) >= 2
    loaded = group.get_command(click.Context(group), command)
    assert loaded is not None
    for example in examples:
        words = shlex.split(example.split("|")[-1])
        assert words[:2] == ["gputel", command]
        loaded.make_parser(click.Context(loaded)).parse_args(words[2:])


@pytest.mark.parametrize("command", COMMANDS)
def test_help_lists_every_option_once_in_groups_that_fit_a_screen(command: str) -> None:
    shown = gputel(command, "--help", env={"COLUMNS": "80"}).stdout
    groups = shown.split("\n\n")
    assert max(len(group.splitlines()) for group in groups) <= 24
    assert len(shown.splitlines()) <= 50
    loaded = group.get_command(click.Context(group), command)
    assert loaded is not None
    names = [max(option.opts, key=len) for option in loaded.params if isinstance(option, click.Option)]
    lines = [line for part in groups if part[:1].isalpha() for line in part.splitlines()]
    heads = [re.split(" {2,}", line.strip())[0] for line in lines if line.startswith("  -")]
    words = [word.strip(",") for head in heads for word in head.split()]
    assert [name for name in names if words.count(name) != 1] == []


def test_reader_that_goes_away_is_no_error() -> None:
    script = f"{sys.executable} -m gputel --help | head -1; exit ${{PIPESTATUS[0]}}"
    answer = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (0, "")


def test_version_is_the_packages() -> None:
    import gputel as package

    assert gputel("--version").stdout == f"gputel, version {package.__version__}\n"


def test_everything_the_python_api_promises_is_there() -> None:
    import gputel as package

    assert all(getattr(package, name) for name in package.__all__)
    assert json.dumps(package.__all__)
    with pytest.raises(AttributeError, match="module 'gputel' has no attribute 'nothing'"):
        _ = package.nothing
