"""The hooks of `--inside steps` count each step once, and the training is as it would be without them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from gputel.telemetry.clock import SECOND, wall_at_boot, wall_ns
from gputel.telemetry.inside import environment as meeting_place
from gputel.telemetry.inside import step_records, unseen
from tests.telemetry.inside import small_torch
from tests.telemetry.inside.pythons import environment, every_python, run

BEGIN = """
import sys, torch
from torch.autograd import backward
from torch.utils.data.dataloader import DataLoader
optimizer, other = torch.optim.Optimizer(), torch.optim.Optimizer()
def train(data=range(3)):
    for batch in DataLoader(data):
        backward()
        optimizer.step()
"""


@pytest.fixture
def stub(tmp_path: Path) -> Path:
    (tmp_path / "stub").mkdir()
    small_torch.write(tmp_path / "stub")
    return tmp_path / "stub"


@pytest.fixture
def this_python() -> Path:
    return Path(sys.executable)


def same(python: Path, script: str, meeting: Path, stub: Path, *options: str) -> None:
    """Runs a script with and without the hooks."""
    plain, hooked = (
        run(python, script, environment(folder, stub, level="steps"), *options, cwd=stub.parent)
        for folder in (None, meeting)
    )
    assert (hooked.stdout, hooked.stderr, hooked.returncode) == (plain.stdout, plain.stderr, plain.returncode)


def files(meeting: Path, *, is_open: bool = False) -> list[list[dict[str, Any]]]:
    """The steps of each process, in the order of their first; `is_open` adds those that had not ended."""
    read = []
    for path in meeting.glob(f"*{step_records.ENDING}"):
        content = path.read_bytes()
        assert step_records.header(content) is not None
        rows = [row._asdict() for row in step_records.records(content[step_records.SIZE :])]
        read.append([row for row in rows if is_open or not row["flags"] & step_records.OPEN])
    return sorted(read, key=lambda rows: rows[0]["ns"])


def steps(meeting: Path) -> list[dict[str, Any]]:
    (rows,) = files(meeting)
    return rows


def counts(meeting: Path) -> list[tuple[int, int, int]]:
    return [(row["fetches"], row["backwards"], row["optimizers"]) for row in steps(meeting)]


SCRIPTS = {
    "accumulates, with two optimizers": (
        """
for number, batch in enumerate(DataLoader(range(6))):
    backward()
    if number % 2:
        optimizer.step()
        other.step()
""",
        [(2, 2, 2)] * 3,
    ),
    "reads two loaders": (
        """
for batch in zip(DataLoader(range(3)), DataLoader(range(4))):
    backward()
    optimizer.step()
""",
        [(2, 1, 1)] * 3,
    ),
    "has no loader": ("for _ in range(3):\n    backward()\n    optimizer.step()", [(0, 1, 1)] * 3),
    "steps within backward": (
        "for _ in range(3):\n    backward(lambda: [each.step() for each in (optimizer, other)])",
        [(0, 1, 2)] * 3,
    ),
    "nests backwards and optimizers": (
        """
class Outer(torch.optim.Optimizer):
    def step(self):
        optimizer.step()
outer = Outer()
for _ in range(3):
    backward(backward)
    torch.optim.Optimizer.step(outer, closure=lambda: optimizer.step())
""",
        [(0, 1, 1)] * 3,
    ),
    "takes a closure": ("for _ in range(3):\n    optimizer.step(backward)", [(0, 1, 1)] * 3),
    "skips a step": ("for _ in range(4):\n    backward()\n    _ % 2 and optimizer.step()", [(0, 2, 1)] * 2),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_steps_of_a_training_that(name: str, this_python: Path, meeting: Path, stub: Path) -> None:
    script, expected = SCRIPTS[name]
    same(this_python, BEGIN + script, meeting, stub, "-W", "error")
    assert counts(meeting) == expected
    assert unseen.failures(meeting) == []


def test_fetches_of_evaluations_belong_to_no_step(this_python: Path, meeting: Path, stub: Path) -> None:
    """One runs without gradients and is left early, the other reads its loader to the end."""
    script = """
train()
with torch.no_grad():
    for batch in DataLoader(range(9)):
        break
train()
for batch in DataLoader(range(5)):
    pass
train()
"""
    same(this_python, BEGIN + script, meeting, stub)
    assert counts(meeting) == [(1, 1, 1)] * 9
    flagged = [bool(row["flags"] & step_records.EVALUATES) for row in steps(meeting)]
    assert flagged == [number in (3, 6) for number in range(9)]


def test_times_are_those_of_the_parts(this_python: Path, meeting: Path, stub: Path) -> None:
    script = """
import time
def slow():
    for number in range(3):
        time.sleep(0.03)
        yield number
for batch in DataLoader(slow()):
    backward(lambda: time.sleep(0.02))
    optimizer.step(lambda: time.sleep(0.01))
    time.sleep(0.01)
"""
    same(this_python, BEGIN + script, meeting, stub)
    for number, row in enumerate(steps(meeting)):
        assert row["fetch_ns"] >= 30_000_000
        assert row["backward_ns"] >= 20_000_000
        assert row["optimizer_ns"] >= 10_000_000
        assert row["step_ns"] == -1 if number == 0 else row["step_ns"] >= 70_000_000
        assert row["flags"] == step_records.CLOSURE | step_records.WAITS


def test_threads_beside_the_training_are_not_seen(this_python: Path, meeting: Path, stub: Path) -> None:
    script = """
import threading
def beside():
    list(DataLoader(range(50)))
    other.step()
for _ in range(3):
    thread = threading.Thread(target=beside)
    thread.start()
    thread.join()
    train([1])
"""
    same(this_python, BEGIN + script, meeting, stub)
    assert counts(meeting) == [(1, 1, 1)] * 3


def test_training_in_a_thread_is_seen(this_python: Path, meeting: Path, stub: Path) -> None:
    script = "import threading\nthread = threading.Thread(target=train)\nthread.start()\nthread.join()\n"
    same(this_python, BEGIN + script, meeting, stub)
    assert [row["backwards"] for row in steps(meeting)] == [1, 1, 1]


@every_python
def test_training_that_forks_and_fails_is_as_without_hooks(python: Path, meeting: Path, stub: Path) -> None:
    """From Python 3.11 on data waits and backwards are seen; before it a frame of ours would be in tracebacks."""
    script = """
import os
train()
if os.fork() == 0:
    train()
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.wait()[1]) if sys.version_info >= (3, 9) else 3)
train()
def fails():
    yield 1
    raise ValueError("data")
try:
    train(fails())
except ValueError:
    import traceback
    traceback.print_exc()
def fails():
    raise KeyError("gradient")
backward(fails)
"""
    same(python, BEGIN + script, meeting, stub, "-W", "error")
    assert [len(rows) for rows in files(meeting)] == [7, 3]


@every_python
def test_torch_that_is_looked_for_before_it_is_imported_is_seen(
    python: Path, meeting: Path, stub: Path
) -> None:
    script = "from importlib import util\nimport sys\nassert util.find_spec('torch').loader\n"
    end = "\nprint([type(each).__name__ for each in sys.meta_path], vars(torch.__spec__.loader))"
    same(python, script + BEGIN + "train()" + end, meeting, stub)
    assert len(steps(meeting)) == 3


def test_import_that_fails_is_as_without_hooks(this_python: Path, meeting: Path, stub: Path) -> None:
    (stub / "torch" / "autograd.py").write_text("raise OSError('libtorch.so')")
    same(this_python, "import torch", meeting, stub)
    assert unseen.failures(meeting) == []


@every_python
def test_torch_without_the_names_is_said_and_left_alone(python: Path, meeting: Path, stub: Path) -> None:
    (stub / "torch" / "compiler.py").write_text("")
    same(python, BEGIN + "train()", meeting, stub)
    (failure,) = unseen.failures(meeting)
    process, _, why = failure.partition(": steps: ")
    assert why.startswith("RuntimeError: torch small cannot be seen: module 'torch.compiler'")
    assert unseen.sentence(failure) == f"{process}: steps are not seen: {why}"


LONG = """
import time
ticks = iter(range(0, 10**12, 600_000_000))
time.clock_gettime_ns = lambda _: next(ticks)  # of the hooks: 0.6 s from each look at the clock to the next
"""


def test_step_of_over_a_second_is_recorded_before_it_ends(
    this_python: Path, meeting: Path, stub: Path
) -> None:
    script = """
for number, _ in enumerate(DataLoader(range(4))):
    backward()
    backward()
    if number % 2:
        optimizer.step()
"""
    run(this_python, LONG + BEGIN + script, environment(meeting, stub, level="steps"), cwd=stub.parent)
    (rows,) = files(meeting, is_open=True)
    is_open = [bool(row["flags"] & step_records.OPEN) for row in rows]
    assert is_open.count(False) == 2
    before, first = is_open.index(False) - 1, is_open.index(False)
    assert is_open[before]
    names = ("fetches", "backwards", "fetch_ns", "backward_ns")
    assert all(rows[before][name] <= rows[first][name] for name in names)
    assert rows[0]["backwards"] < rows[before]["backwards"] == 4
    assert rows[before]["optimizers"] == 0
    moments = [row["ns"] for row in rows]
    assert moments == sorted(moments)


def test_process_that_only_reads_data_records_nothing(this_python: Path, meeting: Path, stub: Path) -> None:
    """It may not know its rank yet, which the file begins with."""
    script = "for batch in DataLoader(range(4)):\n    pass"
    run(this_python, LONG + BEGIN + script, environment(meeting, stub, level="steps"), cwd=stub.parent)
    assert files(meeting) == []


LIMIT = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
train()
resource.setrlimit(resource.RLIMIT_FSIZE, (140, 140))
train()
"""


@pytest.mark.parametrize(
    ("script", "failure"),
    [
        ("train()\nimport os\nos.closerange(3, 4096)\ntrain()", "steps: OSError"),
        (LIMIT, "steps: OSError"),
        (f"import os\nos.environ['RANK'] = '3'\n{LIMIT}", "steps of rank 3: OSError"),
    ],
    ids=["closes all descriptors", "has no room", "has no room, with a rank"],
)
def test_failure_ends_the_records_and_nothing_else(
    script: str, failure: str, this_python: Path, meeting: Path, stub: Path
) -> None:
    same(this_python, BEGIN + script, meeting, stub)
    assert [failure in line for line in unseen.failures(meeting)] == [True]
    content = next(meeting.glob(f"*{step_records.ENDING}")).read_bytes()
    assert len(content) // step_records.SIZE == 1 + 1


def test_stacks_name_torch_where_a_hook_stands(this_python: Path, meeting: Path, stub: Path) -> None:
    """A rank that waits for data or in backward must not seem to stand in a file of ours."""
    script = """
import traceback
def show():
    print([frame.filename.rpartition("/")[2] for frame in traceback.extract_stack()])
def data():
    yield show()
for batch in DataLoader(data()):
    backward(show)
"""
    process = run(this_python, BEGIN + script, environment(meeting, stub, level="steps"), cwd=stub.parent)
    assert "'dataloader.py'" in process.stdout
    assert "'autograd.py'" in process.stdout
    assert "_gputel" not in process.stdout


def test_folder_that_goes_is_silence(this_python: Path, meeting: Path, stub: Path) -> None:
    script = f"import shutil\ntrain()\nshutil.rmtree({str(meeting)!r}, True)\ntrain()"
    same(this_python, BEGIN + script, meeting, stub)
    meeting.mkdir()


def test_killed_training_leaves_what_was_written(this_python: Path, meeting: Path, stub: Path) -> None:
    """The first step at once, later ones once a second."""
    script = "import os, signal\ntrain()\nos.kill(os.getpid(), signal.SIGKILL)"
    run(this_python, BEGIN + script, environment(meeting, stub, level="steps"), cwd=stub.parent)
    assert len(steps(meeting)) >= 1


def test_levels_are_those_that_the_hook_knows() -> None:
    source = (meeting_place.HOOK / "sitecustomize.py").read_text()
    assert f"LEVELS = {meeting_place.LEVELS[1:]!r}".replace("'", '"') in source


def test_fields_are_those_of_the_run_folders_page() -> None:
    assert tuple(field.name for field in step_records.FIELDS) == step_records.StepRecord._fields
    page = (Path(__file__).resolve().parents[3] / "docs" / "run-folder.md").read_text()
    for field in step_records.FIELDS:
        assert f"| `{field.name}` | {field.kind[-1]} | {field.about} |" in page


def test_times_are_by_the_recorder_s_wall_clock(this_python: Path, meeting: Path, stub: Path) -> None:
    """The recorder's clock stays as it was when the machine's is set: here by a day."""
    clock = meeting / meeting_place.CLOCK
    day_ns = 86_400 * SECOND
    clock.write_text(f"{wall_at_boot() - day_ns}")
    run(this_python, f"{BEGIN}train()", environment(meeting, stub, level="steps"), cwd=stub.parent)
    assert all(abs(row["ns"] + day_ns - wall_ns()) < 3600 * SECOND for row in steps(meeting))
