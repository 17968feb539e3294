"""The sampler's process from its start to its seal: it is started, steered by a pipe, killed, and started again."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gputel.telemetry import completeness, events, run_folder
from gputel.telemetry.identity import facts
from gputel.telemetry.store.journal import read
from tests.fake_nvml import DRIVER_NOT_LOADED, GPU_IS_LOST, H100, NO_PERMISSION, VERSION_MISMATCH
from tests.recordings import PATIENCE_S, until
from tests.telemetry.conftest import MakeFake

PROGRAM = """
import json, sys
from pathlib import Path
from gputel.telemetry.sampling import sampler
from gputel.telemetry.sampling.status import Board

class PrintedBoard(Board):
    def publish(self, news):
        super().publish(news)
        print(json.dumps(self.read()), flush=True)

folder, machine, hz, gpus = sys.argv[1:]
spec = sampler.Spec(Path(folder), machine, float(hz), tuple(gpus.split(",")) if gpus else None)
sys.exit(sampler.run(spec, PrintedBoard(), [0]))
"""


class Process:
    """The sampler as a process of its own: it ends when its standard input is closed, and prints its board."""

    def __init__(
        self,
        folder: Path,
        machine: str,
        *,
        hz: float = 100,
        gpus: str = "",
        env: Mapping[str, str] | None = None,
        before: str = "",
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", before + PROGRAM, str(folder), machine, str(hz), gpus],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            text=True,
        )

    def next(self) -> dict[str, object]:
        assert self.process.stdout is not None
        news: dict[str, object] = json.loads(self.process.stdout.readline())
        return news

    def sampling(self, ticks: int = 10) -> dict[str, object]:
        """What the board said once so many ticks were done."""
        while True:
            news = self.next()
            if isinstance(news["ticks"], int) and news["ticks"] >= ticks:
                return news

    def end(self) -> tuple[int, dict[str, object]]:
        output, wrong = self.process.communicate(timeout=PATIENCE_S)
        assert wrong == ""
        return self.process.returncode, json.loads(output.splitlines()[-1])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "run"
    run_folder.create(place, facts([], env={}, cwd=tmp_path, name="test", tags={}))
    return place


def kinds(folder: Path) -> list[object]:
    return [event["kind"] for event in events.read(folder)]


def column(folder: Path, name: str, gpu: str, tier: str = "fast") -> list[int | None]:
    """Everything in the journals of a tier."""
    values: list[int | None] = []
    for path in sorted((folder / "gpu").glob(f"{tier}-*.gtb")):
        journal = read(path)
        assert journal is not None
        at = next(i for i, c in enumerate(journal.tier.columns) if (c.name, c.subject) == (name, gpu))
        for ticks in journal.ticks:
            there = [True] * len(ticks.values) if ticks.valid is None else ticks.valid[:, at].tolist()
            values += [v if ok else None for v, ok in zip(ticks.values[:, at].tolist(), there, strict=True)]
    return values


def test_recording_that_ends_before_its_first_sample_says_so(folder: Path) -> None:
    process = Process(folder, "simulate:H100", hz=0.01)
    while process.next()["state"] != "sampling":
        pass
    code, last = process.end()
    assert (code, last["ticks"]) == (0, 0)
    (event,) = events.read(folder)
    assert event["kind"] == "no_telemetry"
    assert "before its first sample" in str(event["text"])


def test_simulated_machine_is_recorded_and_says_that_it_is_simulated(folder: Path) -> None:
    process = Process(folder, "simulate:2xH100")
    news = process.sampling(50)
    assert (news["state"], news["simulated"]) == ("sampling", "2xH100")
    code, last = process.end()
    assert (code, last["state"], last["error"]) == (0, "ended", None)
    described = run_folder.describe(folder)
    assert described["simulated"] == "2xH100"
    assert [gpu["gpu"] for gpu in described["gpus"]] == ["0", "1"]  # type: ignore[attr-defined]
    statistics = described["sampling"]["statistics"]  # type: ignore[index]
    assert statistics["ticks"] == last["ticks"]
    assert last["bytes"] == sum(path.stat().st_size for path in (folder / "gpu").glob("*.gtb"))


def test_every_tick_that_was_counted_is_in_the_store(folder: Path) -> None:
    process = Process(folder, "simulate:H100")
    process.sampling(150)
    _, last = process.end()
    assert len(column(folder, "power_w", "0")) == last["ticks"]


def test_restarted_sampler_continues_in_the_same_folder_and_reports_the_gap(
    folder: Path,
) -> None:
    process = Process(folder, "simulate:H100")
    process.sampling(250)
    process.process.send_signal(signal.SIGKILL)
    process.process.communicate()
    kept = len(column(folder, "power_w", "0"))
    assert kept >= 100, "at most the last second is lost"
    process = Process(folder, "simulate:H100")
    process.sampling(50)
    _, last = process.end()
    assert isinstance(last["ticks"], int)
    assert len(column(folder, "power_w", "0")) == kept + last["ticks"]
    assert kinds(folder) == ["gap"]
    assert run_folder.describe(folder)["sampling"]["starts"] == 2  # type: ignore[index]


@pytest.mark.parametrize(
    ("machine", "gpus", "line"),
    [
        (
            "simulate:3xB300",
            "",
            "--simulate: there is no '3xB300' to simulate; name one of H100, H100-PCIe, H200",
        ),
        (
            "simulate:2xH100",
            "0,5",
            "--gpus: there is no GPU 5; this machine has 0, 1; name some of these",
        ),
        ("simulate:H100", "9", "--gpus: there is no GPU 9; this machine has GPU 0 only"),
    ],
)
def test_unknown_machine_or_gpu_fails_with_one_line(folder: Path, machine: str, gpus: str, line: str) -> None:
    code, last = Process(folder, machine, gpus=gpus).end()
    error = last["error"]
    assert isinstance(error, dict)
    assert (code, last["state"]) == (2, "failed")
    assert f"{error['place']}: {error['fault']}; {error['hint']}".startswith(line)


def test_named_gpus_alone_are_recorded(folder: Path) -> None:
    process = Process(folder, "simulate:4xH100", gpus="1,GPU-simulated-3")
    assert [gpu["gpu"] for gpu in process.sampling()["gpus"]] == ["1", "3"]  # type: ignore[attr-defined]
    process.end()


def test_missing_driver_library_fails_with_a_hint(folder: Path) -> None:
    code, last = Process(folder, "nvml").end()
    assert code == 1
    assert last["error"] == {
        "place": "libnvidia-ml.so.1",
        "fault": "the NVIDIA driver's library was not found",
        "hint": "install the driver, or try --simulate 2xH100",
    }
    assert [(event["kind"], event["text"]) for event in events.read(folder)] == [
        ("no_telemetry", "libnvidia-ml.so.1: the NVIDIA driver's library was not found")
    ]


@pytest.mark.needs("cc")
@pytest.mark.parametrize(
    ("status", "fault"),
    [
        (DRIVER_NOT_LOADED, "the NVIDIA driver is not loaded"),
        (VERSION_MISMATCH, "the driver in the kernel and its library have different versions"),
        (NO_PERMISSION, "no permission to talk to the driver"),
        (999, "it answers Unknown"),
    ],
)
def test_unusable_driver_says_why(folder: Path, fake: MakeFake, status: int, fault: str) -> None:
    driver = fake()
    driver.state.init_status = status
    code, last = Process(folder, "nvml", env=driver.environment).end()
    error = last["error"]
    assert isinstance(error, dict)
    assert (code, error["place"], error["fault"]) == (1, "NVML", fault)
    assert error["hint"]


@pytest.mark.needs("cc")
def test_driver_without_a_gpu_is_not_one_with_a_lost_gpu(folder: Path, fake: MakeFake) -> None:
    driver = fake()
    driver.state.gpu_count = 0
    _, last = Process(folder, "nvml", env=driver.environment).end()
    assert last["error"]["fault"] == "the driver reports no GPU"  # type: ignore[index]


@pytest.mark.needs("cc")
def test_real_process_records_the_fake_drivers_watts_xids_and_throttling(
    folder: Path, fake: MakeFake
) -> None:
    driver = fake(H100, H100)
    driver.power([(1_000_000_000, 512_000)], gpu=1)
    process = Process(folder, "nvml", env=driver.environment)
    news = process.sampling(30)
    assert news["simulated"] is None
    assert [gpu["power_w"] for gpu in news["gpus"]] == [300.0, 512.0]  # type: ignore[attr-defined]
    driver.xid(31)
    driver.state.gpus[1].throttle = 0x40 | 0x4
    until(lambda: {"xid", "throttle"} <= set(kinds(folder)), "both events")
    process.end()
    assert set(column(folder, "power_w", "1")) == {512_000}
    texts = {event["kind"]: event["text"] for event in events.read(folder)}
    assert texts["throttle"] == "GPU 1 is slowed down: hardware thermal slowdown"
    assert texts["xid"] == "Xid 31 on GPU 0: memory page fault"


@pytest.mark.needs("cc")
def test_pcie_rate_that_20_hz_cannot_follow_is_null_and_an_event(folder: Path, fake: MakeFake) -> None:
    driver = fake(H100, H100)
    for gpu in driver.gpus:
        gpu.pcie_bits, gpu.pcie_refresh_ns, gpu.pcie_rx_rate, gpu.pcie_tx_rate = 32, 20_000_000, 10**9, 10**9
    process = Process(folder, "nvml", hz=20, env=driver.environment)
    until(lambda: "unknown_rate" in kinds(folder), "its event")
    process.end()
    assert set(column(folder, "pcie_rx_mib_s", "1")) == {None}
    (event,) = (event for event in events.read(folder) if event["kind"] == "unknown_rate")
    assert event["text"] == (
        "GPU 0, 1: no pcie_rx_mib_s, pcie_tx_mib_s: "
        "its counter of 32 bits may wrap every 67 ms, read it more often (--hz, --max-overhead)"
    )
    statistics = run_folder.describe(folder)["sampling"]["statistics"]  # type: ignore[index]
    assert statistics["counters"]["1"]["pcie_rx_mib_s"]["unknown"] == event["why"]


@pytest.mark.needs("cc")
def test_lost_gpu_is_null_in_the_store_and_an_event(folder: Path, fake: MakeFake) -> None:
    driver = fake(H100, H100)
    process = Process(folder, "nvml", env=driver.environment)
    process.sampling(30)
    driver.state.gpus[0].gone = GPU_IS_LOST
    until(lambda: "gpu_lost" in kinds(folder), "its event")
    driver.state.gpus[0].gone = 0
    until(lambda: "gpu_back" in kinds(folder), "its event")
    process.end()
    lost = column(folder, "power_w", "0")
    assert None in lost
    assert lost[0] == 300_000
    assert set(column(folder, "power_w", "1")) == {300_000}


@pytest.mark.needs("cc")
def test_sampler_seals_and_ends_despite_a_call_that_never_returns(folder: Path, fake: MakeFake) -> None:
    driver = fake(H100, H100)
    process = Process(folder, "nvml", env=driver.environment)
    process.sampling(30)
    driver.state.gpus[0].hang = 1
    until(lambda: "gpu_lost" in kinds(folder), "its event")
    before = process.sampling(0)["ticks"]
    assert isinstance(before, int)
    process.sampling(before + 20)
    code, last = process.end()
    assert (code, last["state"]) == (0, "ended")
    assert len(column(folder, "power_w", "1")) >= before + 20
    assert set(column(folder, "power_w", "1")) == {300_000}


DISK_THAT_HANGS = """
import threading
from gputel.telemetry.sampling import sampler
sampler.LONGEST_SEAL = 300_000_000
sampler.Writer.close = lambda self: threading.Event().wait()
"""


def test_sampler_ends_though_its_disk_hangs_and_says_what_it_gave_up_on(folder: Path) -> None:
    process = Process(folder, "simulate:H100", before=DISK_THAT_HANGS)
    process.sampling()
    code, last = process.end()
    assert (code, last["state"]) == (0, "ended")
    assert last["left_behind"] == "writing the last samples did not end within 0.3 s"


@pytest.mark.needs("cc")
def test_gpu_that_is_lost_while_it_is_probed_has_an_event_and_comes_back(
    folder: Path, fake: MakeFake
) -> None:
    driver = fake(H100, H100)
    driver.fault("Utilization", GPU_IS_LOST, 1)
    process = Process(folder, "nvml", env=driver.environment)
    process.sampling(20)
    (lost,) = (event for event in events.read(folder) if event["kind"] == "gpu_lost")
    assert (lost["gpu"], lost["text"]) == ("1", "GPU 1 does not answer: GpuIsLost")
    driver.fault("Utilization", 0, 1)
    until(lambda: "gpu_back" in kinds(folder), "its event")
    assert process.end()[0] == 0
    assert column(folder, "power_w", "1")[0] is None


@pytest.mark.needs("cc")
@pytest.mark.parametrize("call", [None, "Utilization"], ids=["opened", "probed"])
def test_gpu_that_hangs_while_it_is_opened_or_probed_costs_the_others_a_second(
    folder: Path, fake: MakeFake, call: str | None
) -> None:
    driver = fake(H100, H100, H100)
    driver.hang(1, call)
    process = Process(folder, "nvml", env=driver.environment)
    process.sampling(20)
    (lost,) = (event for event in events.read(folder) if event["kind"] == "gpu_lost")
    assert (lost["gpu"], lost["cause"]) == ("1", "hang")
    driver.state.gpus[1].hang = 0
    until(lambda: "gpu_back" in kinds(folder), "its event")
    ticks = process.sampling(0)["ticks"]
    assert isinstance(ticks, int)
    process.sampling(ticks + 100)
    code, _ = process.end()
    assert code == 0
    assert set(column(folder, "power_w", "0")) == set(column(folder, "power_w", "2")) == {300_000}
    assert column(folder, "power_w", "1")[0] is None
    assert column(folder, "power_w", "1")[-1] == 300_000
    assert [gpu["name"] for gpu in run_folder.describe(folder)["gpus"]] == [H100] * 3  # type: ignore[attr-defined]


@pytest.mark.needs("cc")
def test_driver_that_never_answers_can_be_stopped_and_the_folder_says_why_it_is_empty(
    folder: Path, fake: MakeFake
) -> None:
    driver = fake()
    driver.hang()
    process = Process(folder, "nvml", env=driver.environment)
    assert process.next()["state"] == "probing"
    code, last = process.end()
    assert (code, last["ticks"]) == (0, 0)
    (event,) = events.read(folder)
    assert event["kind"] == "no_telemetry"
    assert str(event["text"]).startswith("the driver had not answered within ")


@pytest.mark.needs("cc")
def test_driver_that_answers_after_the_limit_is_sampled_from_then_on(folder: Path, fake: MakeFake) -> None:
    """Its recording said to its end that nothing was sampled."""
    driver = fake()
    driver.hang()
    impatient = "from gputel.telemetry.sampling import sampler as s; s.START_LIMIT = 0\n"
    process = Process(folder, "nvml", env=driver.environment, before=impatient)
    until(lambda: kinds(folder) == ["no_telemetry"], "its event")
    driver.state.gpus[0].hang = 0
    process.sampling()
    code, last = process.end()
    assert (code, last["state"], kinds(folder)) == (0, "ended", ["no_telemetry", "gpu_back"])
    assert completeness.not_sampled(folder) == []
    assert column(folder, "power_w", "0")


def test_heart_beats_while_it_samples(folder: Path) -> None:
    """By fork, as the viewer does it: the page outlives the process."""
    script = (
        "import os, sys, time\nfrom pathlib import Path\n"
        "from gputel.telemetry.sampling.status import Board\n"
        "board = Board(); ours, theirs = os.pipe()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os.close(theirs)\n"
        "    from gputel.telemetry.sampling import sampler\n"
        "    spec = sampler.Spec(Path(sys.argv[1]), 'simulate:H100', 100, None)\n"
        "    os._exit(sampler.run(spec, board, [ours]))\n"
        "beats = set()\n"
        "while len(beats) < 10:\n"
        "    beats.add(board.heartbeat); time.sleep(0.01)\n"
        "os.close(ours); os.close(theirs)\n"
        "print(os.waitpid(child, 0)[1], board.read()['state'])\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=True
    )
    assert output.stdout.split() == ["0", "ended"]


def test_sampler_imports_nothing_heavy(tmp_path: Path) -> None:
    script = (
        "import sys; from gputel.telemetry import simulated; from gputel.telemetry.sampling import sampler; "
        "print([m for m in ('polars', 'rich', 'click', 'torch') if m in sys.modules])"
    )
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert output.stdout.strip() == "[]"


def test_sampler_ends_in_the_middle_of_a_second(folder: Path) -> None:
    """Without a signal."""
    process = Process(folder, "simulate:H100", hz=1000)
    process.sampling(100)
    code, _ = process.end()
    assert code == 0
    assert not os.path.exists(f"/proc/{process.process.pid}")  # noqa: PTH110
