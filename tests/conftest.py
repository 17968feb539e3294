"""What every test may ask for: programs that a machine may lack, and the real logs beside the checkout."""

import gc
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import settings

from gputel.telemetry.clock import SECOND, Stamp
from gputel.telemetry.store.journal import Writer
from gputel.telemetry.store.part_writer import PartWriter
from gputel.telemetry.store.tiers import Tier
from tests.telemetry.remote import database as databases

ROOT = Path(__file__).resolve().parents[1]
settings.register_profile("gputel", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("gputel")

REAL_LOGS = ROOT.parent / "shared" / "logs"

PROGRAMS = {
    "cc": ("cc", "gcc", "clang"),
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
    "poppler": ("pdftoppm",),
    "prometheus": ("prometheus",),
    "slurm": ("slurmctld",),
    "tmux": ("tmux",),
    "victoria-metrics": ("victoria-metrics",),
}


ALONE = {"tmux": "terminal", "chromium": "browser"}
"""Programs of which one at a time runs: two would take the cores from each other, and screens change with time."""


def lack(reason: str) -> None:
    """A machine of a user may lack a tool; ours may not."""
    if os.environ.get("CI"):
        pytest.fail(f"CI must have it: {reason}")
    pytest.skip(reason)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: tests wait for processes a third of the time."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Without the garbage collector, which halves the time: all that is collected stays until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests that share such a program, or a fixture of their module, go to one worker of pytest-xdist."""
    needed = {tool for marker in item.iter_markers("needs") for tool in marker.args}
    group = next((ALONE[tool] for tool in sorted(needed & ALONE.keys())), None)
    group = group or (item.path.stem if isinstance(item, pytest.Function) and _shares(item) else None)
    if group:
        item.add_marker(pytest.mark.xdist_group(group))


def _shares(test: pytest.Function) -> bool:
    definitions = test._fixtureinfo.name2fixturedefs.values()
    return any(each.scope == "module" for same_name in definitions for each in same_name)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        for tool in marker.args:
            if not any(shutil.which(name) for name in PROGRAMS[tool]):
                lack(f"needs {tool}, which is not installed")


@pytest.fixture(scope="session", autouse=True)
def no_columns() -> None:
    """Piped tables obey COLUMNS. Readline, which pytest imports, sets it for children, past `os.environ`."""
    os.environ.pop("COLUMNS", None)
    os.unsetenv("COLUMNS")


def _nothing(_number: int, _frame: object) -> None:
    pass


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> Iterator[None]:
    """Recorders would inherit that `pytest &` ignores Ctrl-C and Ctrl-\\, and `nohup pytest` hangups."""
    ignored = [
        number
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
        if signal.getsignal(number) == signal.SIG_IGN
    ]
    for number in ignored:  # a handler of ours is not inherited by another program
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else _nothing)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(scope="session")
def real_logs() -> Path:
    """The folder of public logs, with truth.jsonl."""
    if not REAL_LOGS.is_dir():
        pytest.skip("the real logs do not lie beside this checkout")
    return REAL_LOGS


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.needs(name)) for name in databases.SERVERS], scope="module"
)
def database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[databases.Database]:
    """A real database of each kind."""
    with databases.running(request.param, tmp_path_factory.mktemp(request.param)) as running:
        yield running


class GivenClock:
    """A clock that shows what a test says; its wall time is 10^18 ns ahead of monotonic."""

    def __init__(self, now: int = 0) -> None:
        self.now = now

    def stamp(self) -> Stamp:
        return Stamp(self.now + 10**18, self.now, self.now + 5 * SECOND)

    def monotonic(self) -> int:
        return self.now

    def sleep_until(self, monotonic: int) -> None:
        self.now = max(self.now, monotonic)


Tick: TypeAlias = tuple[int, int, Sequence[int | None]]
Compose: TypeAlias = Callable[..., None]


@pytest.fixture
def compose() -> Compose:
    """`compose(folder, tiers, ticks)` writes a gpu/ folder; a tick is (tier, ns since the start, values)."""

    def write(folder: Path, tiers: Sequence[Tier], ticks: Iterable[Tick], **options: Any) -> None:
        troubles: list[tuple[str, str]] = []
        clock = GivenClock()
        options = {"on_trouble": lambda *said: troubles.append(said), "compactor": None, **options}
        writer = Writer(PartWriter(folder, tiers, clock, **options))
        for tier, at, values in ticks:
            clock.now = at
            writer.append(tier, at, at, values)
            while writer.pending_bytes > 8_000_000:  # time runs faster here than any disk
                time.sleep(0.001)
        writer.close()
        assert not troubles

    return write
