"""`gputel record` as people call it: options, exit codes, what is printed where, what happens to no run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gputel

Answer = subprocess.CompletedProcess[str]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def call(*words: str, env: dict[str, str] | None = None) -> Answer:
    return subprocess.run(
        [sys.executable, "-m", "gputel", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(env or {})},
    )


def test_a_recording_for_a_time_ends_by_itself() -> None:
    answer = call("record", "--simulate", "2xH100", "--for", "1.2s", "--out", "run")
    assert answer.returncode == 0
    assert "SIMULATED: 2xH100" in answer.stderr
    assert "next: gputel info run" in answer.stderr
    assert answer.stdout == ""
    assert gputel.open_run("run").gpu.height > 150
    facts = json.loads(Path("run/run.json").read_text())
    assert facts["exit_code"] == 0
    assert facts["ended"]


def test_the_default_folder_is_named_after_the_script() -> None:
    Path("train.py").write_text("print('hello')")
    assert call("record", "--simulate", "H100", "--", sys.executable, "train.py").returncode == 0
    (run,) = Path("runs").iterdir()
    assert run.name.endswith("-train")
    assert (run / "output.log").read_text() == "hello\n"


def test_a_run_is_called_as_it_was_asked_to_be_or_its_folder_or_its_module() -> None:
    module = (sys.executable, "-m", "this")
    for words, name in (
        (("--out", "here"), "here"),
        (("--out", "x", "--name", "mine"), "mine"),
        ((), "this"),
    ):
        assert call("record", "--simulate", "H100", *words, "--", *module).returncode == 0
        path = Path(words[1]) if words else next(Path("runs").iterdir())
        assert json.loads((path / "run.json").read_text())["run"] == name


def test_json_stands_alone_on_standard_output() -> None:
    answer = call(
        "record", "--simulate", "H100", "--json", "--out", "run", "--", "bash", "-c", "echo hello; exit 3"
    )
    assert answer.returncode == 3
    assert json.loads(answer.stdout)["exit_code"] == 3
    assert answer.stderr.startswith("hello\n")


def test_a_command_that_is_not_there_is_127_and_makes_no_run() -> None:
    answer = call("record", "--out", "run", "--", "no-such-command")
    assert answer.returncode == 127
    assert answer.stderr == "error: no-such-command: command not found; check its spelling and PATH\n"
    assert not Path("run").exists()


def test_a_command_that_cannot_be_run_is_126() -> None:
    Path("text").write_text("hello")
    answer = call("record", "--out", "run", "--", "./text")
    assert answer.returncode == 126
    assert "./text: cannot be run: Permission denied; make it executable with `chmod +x`" in answer.stderr
    Path("text").chmod(0o755)
    answer = call("record", "--out", "again", "--", "./text")
    assert answer.returncode == 126
    assert "begin it with a #! line" in answer.stderr


def test_without_a_gpu_a_plain_recording_is_one_line_and_leaves_nothing() -> None:
    answer = call("record", "--out", "run", env={"LD_LIBRARY_PATH": ""})
    if answer.returncode == 0:
        pytest.skip("this machine has a GPU")
    assert answer.returncode == 1
    assert answer.stderr.count("\n") == 1
    assert answer.stderr.startswith("error: ")
    assert not Path("run").exists()


def test_without_a_gpu_the_output_is_recorded_all_the_same() -> None:
    answer = call("record", "--out", "run", "--", "echo", "hello")
    assert answer.returncode == 0
    assert answer.stdout == "hello\n"
    if "no GPU was sampled" in answer.stderr:
        assert "(the output is recorded all the same)" in answer.stderr


def test_a_run_is_never_overwritten() -> None:
    assert call("record", "--simulate", "H100", "--out", "run", "--", "echo", "first").returncode == 0
    before = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    answer = call("record", "--simulate", "H100", "--out", "run", "--", "echo", "second")
    assert answer.returncode == 1
    assert "this folder already holds a run" in answer.stderr
    assert before == {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}


def test_a_run_that_goes_on_has_another_segment() -> None:
    assert call("record", "--simulate", "H100", "--out", "run", "--", "echo", "first").returncode == 0
    answer = call(
        "record", "--simulate", "H100", "--continue", "run", "--", "bash", "-c", "echo second; exit 2"
    )
    assert answer.returncode == 2
    assert "in 2 segments" in answer.stderr
    assert Path("run/output.log").read_text() == "first\n"
    assert Path("run/segments/2/output.log").read_text() == "second\n"
    assert gputel.open_run("run").segments.height == 2


def test_nodes_record_side_by_side() -> None:
    for rank in ("0", "1"):
        env = {"NODE_RANK": rank, "NNODES": "2"}
        words = ("record", "--simulate", "H100", "--out", "run", "--", "echo", f"node {rank}")
        assert call(*words, env=env).returncode == 0
    assert Path("run/nodes/0/output.log").read_text() == "node 0\n"
    assert Path("run/nodes/1/output.log").read_text() == "node 1\n"


def test_marks_from_inside_find_the_run() -> None:
    mark = f"{sys.executable} -m gputel mark 'warm-up over'"
    assert (
        call("record", "--simulate", "H100", "--out", "run", "--", "bash", "-c", f"cd /; {mark}").returncode
        == 0
    )
    events = Path("run/events.jsonl").read_text().splitlines()
    assert [json.loads(line)["text"] for line in events] == ["warm-up over"]


def test_secrets_and_tags_are_kept_as_they_should_be() -> None:
    words = ("record", "--simulate", "H100", "--out", "run", "--tag", "lr=3e-4", "--tag", "api_key=abc")
    assert call(*words, "--", "echo", "--token", "hunter2").returncode == 0
    facts = json.loads(Path("run/run.json").read_text())
    assert facts["tags"] == {"lr": "3e-4", "api_key": "***"}
    assert facts["argv"] == ["echo", "--token", "***"]


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
        (("--hz", "0"), "--hz"),
        (("--gpus", ","), "--gpus names no GPU; say --gpus 0,2"),
        (
            ("--simulate", "H100", "--gpus", "9", "--out", "x"),
            "error: --gpus: there is no GPU 9; this machine has GPU 0 only",
        ),
    ],
)
def test_nonsense_is_wrong_usage(words: tuple[str, ...], fault: str) -> None:
    answer = call("record", *words)
    assert answer.returncode == 2
    assert fault in answer.stderr
    assert list(Path().iterdir()) == []
