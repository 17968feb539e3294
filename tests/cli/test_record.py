"""`gputel record` as people call it: options, exit codes, what is printed where, what happens to no run."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gputel
from gputel.cli.record import default_name
from gputel.telemetry import events
from tests.recordings import GPUTEL, RECORD

Answer = subprocess.CompletedProcess[str]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def record(
    *words: str, report: bool = False, env: dict[str, str] | None = None, cwd: Path | None = None
) -> Answer:
    """Records; the closing report is left out, which takes most of the time, unless a test asks for it."""
    return subprocess.run(
        [*((*GPUTEL, "record") if report else RECORD), *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(env or {})},
        cwd=cwd,
    )


def test_command_runs_in_a_working_folder_that_was_deleted(tmp_path: Path) -> None:
    """As without us: a shell stays in a folder that another one removes."""
    gone = tmp_path / "gone"
    gone.mkdir()
    run = str(tmp_path / "run")
    script = 'rmdir "$0" && exec "$@"'
    words = [str(gone), *RECORD, "--out", run, "--no-host", "--", "sh", "-c", "echo ran; exit 3"]
    answer = subprocess.run(
        ["sh", "-c", script, *words], cwd=gone, capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stdout.splitlines()[-1:]) == (3, ["ran"]), answer.stderr
    assert json.loads((tmp_path / "run" / "run.json").read_text())["exit_code"] == 3


def test_recording_for_a_time_ends_by_itself() -> None:
    answer = record("--simulate", "2xH100", "--for", "1.2s", "--out", "run", report=True)
    assert answer.returncode == 0
    assert "SIMULATED: 2xH100" in answer.stderr
    assert "next: gputel report run" in answer.stderr
    assert answer.stdout == ""
    facts = json.loads(Path("run/run.json").read_text())
    assert facts["exit_code"] == 0
    assert facts["ended"]["monotonic_ns"] - facts["started"]["monotonic_ns"] >= 1.2e9


SCRIPT = """
import os, subprocess, sys
print("hello")
os.chdir("/")
subprocess.run([sys.executable, "-m", "gputel", "mark", "warm-up over"], check=True, capture_output=True)
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a script's run, with tags and a secret."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "train.py").write_text(SCRIPT)
    words = ("--simulate", "H100", "--tag", "lr=3e-4", "--tag", "api_key=abc", "--", sys.executable)
    answer = record(*words, "train.py", "--token", "hunter2", cwd=folder)
    assert (answer.returncode, answer.stdout) == (0, "hello\n"), answer.stderr
    (run,) = (folder / "runs").iterdir()
    return run


@pytest.fixture
def run(recorded: Path) -> Path:
    """A copy of that run, to go on with."""
    return shutil.copytree(recorded, Path("run"))


def test_default_folder_is_named_after_the_script(recorded: Path) -> None:
    assert recorded.name.endswith("-train")
    assert (recorded / "output.log").read_text() == "hello\n"


@pytest.mark.parametrize(
    ("words", "name"), [(("--out", "here"), "here"), (("--out", "x", "--name", "mine"), "mine")]
)
def test_run_is_named_by_its_option_or_its_folder(words: tuple[str, ...], name: str) -> None:
    assert record(*words, "--no-host", "--", "true").returncode == 0
    assert json.loads(Path(words[1], "run.json").read_text())["run"] == name


@pytest.mark.parametrize(
    ("command", "name"),
    [("python -m gputel.trainer --steps 3", "trainer"), ("bash jobs/d16.sh", "d16"), ("./train", "train")],
)
def test_run_without_a_name_has_that_of_its_module_or_script(command: str, name: str) -> None:
    assert default_name(command.split(), None) == name


def test_marks_from_inside_find_the_run(recorded: Path) -> None:
    events = [json.loads(line) for line in (recorded / "events.jsonl").read_text().splitlines()]
    assert [event["text"] for event in events if event["kind"] == "mark"] == ["warm-up over"]


def test_tags_are_kept_and_secrets_masked(recorded: Path) -> None:
    facts = json.loads((recorded / "run.json").read_text())
    assert facts["tags"] == {"lr": "3e-4", "api_key": "***"}
    assert facts["argv"][1:] == ["train.py", "--token", "***"]


def test_run_folder_is_for_its_user_alone_unless_shared(recorded: Path) -> None:
    assert recorded.stat().st_mode & 0o777 == 0o700
    assert record("--out", "run", "--share-group", "--no-host", "--", "true").returncode == 0
    assert Path("run").stat().st_mode & 0o777 == 0o750


def test_run_is_never_overwritten(run: Path) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    answer = record("--simulate", "H100", "--out", "run", "--", "echo", "second")
    assert answer.returncode == 1
    assert "this folder already holds a run" in answer.stderr
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


def test_continued_run_has_another_segment(run: Path) -> None:
    answer = record(
        "--simulate", "H100", "--continue", "run", "--", "bash", "-c", "echo second; exit 2", report=True
    )
    assert answer.returncode == 2
    assert "in 2 segments" in answer.stderr
    assert (run / "output.log").read_text() == "hello\n"
    assert (run / "segments/2/output.log").read_text() == "second\n"
    assert gputel.open_run("run").segments.height == 2


def test_continued_recording_has_one_thread_which_gets_every_signal(run: Path) -> None:
    look = "p=$(grep PPid: /proc/$PPID/status | cut -f2); ls /proc/$p/task | wc -l"
    assert record("--continue", str(run), "--", "bash", "-c", look).stdout == "1\n"


def test_json_stands_alone_on_standard_output() -> None:
    answer = record(
        "--simulate", "H100", "--json", "--out", "run", "--", "bash", "-c", "echo hello; exit 3", report=True
    )
    assert answer.returncode == 3
    assert json.loads(answer.stdout)["exit_code"] == 3
    assert answer.stderr.startswith("hello\n")


def test_command_that_is_not_found_is_127_and_makes_no_run() -> None:
    answer = record("--out", "run", "--", "no-such-command")
    assert answer.returncode == 127
    assert answer.stderr == "error: no-such-command: command not found; check its spelling and PATH\n"
    assert not Path("run").exists()


def test_command_that_cannot_be_run_is_126_and_leaves_no_folder() -> None:
    Path("text").write_text("hello")
    answer = record("--out", "run", "--", "./text")
    assert answer.returncode == 126
    assert "./text: cannot be run: Permission denied; make it executable with `chmod +x`" in answer.stderr
    assert not Path("run").exists()


@pytest.mark.parametrize("content", [b"\0\1\2", b"\x7fELF" + b"garbage" * 99], ids=["NUL", "damaged program"])
def test_file_that_is_no_program_is_126_and_leaves_no_folder(content: bytes) -> None:
    Path("text").write_bytes(content)
    Path("text").chmod(0o755)
    answer = record("--out", "here/and/there", "--", "./text")
    assert answer.returncode == 126
    assert (
        "./text: cannot be run: Exec format error; it is not a program, or one for another system"
        in answer.stderr
    )
    assert not Path("here").exists()


def test_script_without_interpreter_line_runs_as_in_a_shell() -> None:
    Path("job").write_text('echo "$0 $1"; exit 5\n')
    Path("job").chmod(0o755)
    answer = record("--out", "run", "--", "./job", "a b")
    assert (answer.returncode, answer.stdout) == (5, "./job a b\n")


@pytest.mark.parametrize(
    "words",
    [
        ("--pid", str(2**22 - 1)),
        ("--follow", "none.log"),
        ("--follow", sys.executable, "--pid", str(2**22 - 1)),
    ],
)
def test_start_that_fails_leaves_no_folder(words: tuple[str, ...]) -> None:
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("kept")
    for out in ("runs/a/b", "mine"):
        answer = record("--simulate", "H100", "--out", out, *words)
        assert answer.returncode == 1
        assert answer.stderr.count("\n") == 1
    assert [path.name for path in Path().rglob("*")] == ["mine", "notes.txt"]


@pytest.mark.parametrize(
    "limit", ["-n 15", "-n 16", pytest.param("-v 300000", marks=pytest.mark.long), "-v 500000"]
)
def test_exit_code_survives_lack_of_memory_or_descriptors(limit: str) -> None:
    """The report may be missing; it is made in another process, which may even abort."""
    command = f"{sys.executable} -m gputel record --simulate H100 --out run -- sh -c 'echo hi; exit 3'"
    answer = subprocess.run(
        ["bash", "-c", f"ulimit {limit}; exec {command}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, answer.stdout) == (3, "hi\n")
    assert "not sampled" in answer.stderr, (
        "it says why there is no telemetry, or had none to take before the end"
    )
    assert json.loads(Path("run/run.json").read_text())["exit_code"] == 3
    assert "next: gputel report run" in answer.stderr or "no report: " in answer.stderr


def test_recording_with_fsync_keeps_output_and_end() -> None:
    answer = record("--fsync", "--out", "run", "--", "sh", "-c", "echo hi; exit 3")
    assert (answer.returncode, answer.stdout) == (3, "hi\n")
    assert json.loads(Path("run/run.json").read_text())["exit_code"] == 3


def test_too_few_descriptors_are_one_line_and_no_folder() -> None:
    command = f"{sys.executable} -m gputel record --out run -- true"
    answer = subprocess.run(
        ["bash", "-c", f"ulimit -n 11; exec {command}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 1
    assert answer.stderr == "error: gputel record: cannot start: too many open files; raise `ulimit -n`\n"
    assert not Path("run").exists()


def test_output_and_exit_code_are_kept_without_proc() -> None:
    command = f"{sys.executable} -m gputel record --out run -- sh -c 'echo hi; exit 3'"
    hide = ["unshare", "--mount", "bash", "-c", f"mount -t tmpfs none /proc || exit 99; exec {command}"]
    answer = subprocess.run(hide, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if answer.returncode in (1, 99) and not Path("run").exists():
        pytest.skip(f"hiding /proc needs root: {answer.stderr.strip()}")
    assert (answer.returncode, answer.stdout) == (3, "hi\n")
    assert Path("run/output.log").read_text() == "hi\n"


def test_continue_is_refused_while_the_run_is_recorded() -> None:
    inner = f"{sys.executable} -m gputel record --continue run -- true; echo $?"
    answer = record("--out", "run", "--", "bash", "-c", inner)
    assert answer.stdout.splitlines()[-1] == "1"
    assert "error: run: is still in use by process " in answer.stdout
    assert "; wait for its end, or stop it" in answer.stdout
    assert not Path("run/segments").exists()


def test_without_a_gpu_a_plain_recording_is_one_line_and_leaves_nothing() -> None:
    answer = record("--out", "run", env={"LD_LIBRARY_PATH": ""})
    if answer.returncode == 0:
        pytest.skip("this machine has a GPU")
    assert answer.returncode == 1
    assert answer.stderr.count("\n") == 1
    assert answer.stderr.startswith("error: ")
    assert "with a COMMAND its output is recorded without a GPU" in answer.stderr
    assert not Path("run").exists()


def test_without_a_gpu_the_output_is_recorded_all_the_same() -> None:
    answer = record("--out", "run", "--", "echo", "hello")
    assert answer.returncode == 0
    assert answer.stdout == "hello\n"
    if "no GPU was sampled" in answer.stderr:
        first = answer.stderr.splitlines()[0]
        assert ": output, its times and the exit code are recorded, GPUs are not; " in first


def test_nodes_record_side_by_side() -> None:
    for rank in ("0", "1"):
        env = {"NODE_RANK": rank, "NNODES": "2"}
        words = ("--simulate", "H100", "--out", "run", "--", "echo", f"node {rank}")
        assert record(*words, env=env).returncode == 0
    assert Path("run/nodes/0/output.log").read_text() == "node 0\n"
    assert Path("run/nodes/1/output.log").read_text() == "node 1\n"


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("--for", "30s", "--", "true"), "put `timeout 30s` before the command"),
        (("--for", "soon"), "'soon' is not a duration like 30s, 5m or 2h"),
        (("--max-overhead", "lots"), "'lots' is not a share like 2% or 0.02"),
        (("--tag", "x"), "'x' is not like name=value"),
        (("--follow", "x", "--", "true"), "leave out the command"),
        (("--out", "a", "--continue", "b"), "leave out --out"),
        (("--pty",), "gives a terminal to a command"),
        (("--simulate", "--out", "x", "true"), "--simulate needs a machine, such as 2xH100"),
        (("--hz", "0"), "--hz"),
        (("--gpus", ","), "--gpus names no GPU; say --gpus 0,2"),
        (
            ("--simulate", "H100", "--gpus", "9", "--out", "x"),
            "error: --gpus: there is no GPU 9; this machine has GPU 0 only",
        ),
    ],
)
def test_nonsense_is_a_usage_error(words: tuple[str, ...], fault: str) -> None:
    answer = record(*words)
    assert answer.returncode == 2
    assert fault in answer.stderr
    assert list(Path().iterdir()) == []


SAYS = """
import time, gputel
gputel.config(depth=4)
for step in range(20):
    gputel.log(step=step, loss=3 - step / 10)
    time.sleep(0.02)
gputel.mark("new data")
"""


def test_what_the_command_says_by_itself_is_in_the_run() -> None:
    Path("train.py").write_text(SAYS)
    answer = record("--no-host", "--out", "run", "--", sys.executable, "train.py")
    assert (answer.returncode, answer.stdout) == (0, "")
    run = gputel.open_run("run")
    assert run.steps["step"].to_list() == list(range(20))
    assert run.log.config["depth"] == 4
    assert [event["text"] for event in events.read(Path("run")) if event["kind"] == "mark"] == ["new data"]
    assert not Path(json.loads(Path("run/run.json").read_text())["inside"]["folder"]).exists()
