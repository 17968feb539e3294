"""The sampling process: opens a machine, plans, and samples it in one thread, which the main thread supervises.

Takes a `Spec` and descriptors that end it. Writes gpu/ in the segment's folder, facts in run.json, events, and
the latest values on the board. The main thread writes nothing to disk, so that a slow disk cannot stop it:
another thread writes events and facts, which on a shared folder may take 30 s.
"""

from __future__ import annotations

import gc
import os
import select
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gputel.telemetry import run_folder
from gputel.telemetry.clock import SECOND, Clock, SystemClock
from gputel.telemetry.errors import GputelError, unexpected
from gputel.telemetry.host.recorder import HostRecorder
from gputel.telemetry.machine import Machine, UserLook, choose
from gputel.telemetry.priority import raise_priority
from gputel.telemetry.sampling import plan as planning
from gputel.telemetry.sampling import watchdog
from gputel.telemetry.sampling.budget import Budget
from gputel.telemetry.sampling.cost import SamplingCost
from gputel.telemetry.sampling.folder_writer import FolderWriter
from gputel.telemetry.sampling.gpu_users import UserLooks
from gputel.telemetry.sampling.loop import Loop, report_lost
from gputel.telemetry.sampling.plan import Prober
from gputel.telemetry.sampling.status import Board, StatusWriter
from gputel.telemetry.sampling.watchdog import LOOK_EVERY_S, Stale, Turn, Watchdog
from gputel.telemetry.store import compact
from gputel.telemetry.store.journal import Writer
from gputel.telemetry.store.part_writer import PartWriter

SIMULATE, REPLAY = "simulate:", "replay:"
START_LIMIT = 90 * SECOND
"""A driver without persistence mode takes seconds to start; calls that hung for 45 s have been seen."""
LONGEST_SEAL = 90 * SECOND
"""How long the end waits for a disk or a driver that hangs: longer than the store waits for its disk."""
DESCRIBE_EVERY = 60 * SECOND
PUBLISH_EVERY = SECOND
GIL_WAIT_S = 0.0005
"""How long another thread may keep the sampling one waiting: Python's own 5 ms are half a period at 100 Hz."""


@dataclass(frozen=True)
class Spec:
    """The machine to sample, how often, and the folder."""

    folder: Path
    machine: str
    """`nvml`, `simulate:2xH100`, or `replay:` and a run folder."""
    hz: float
    gpus: tuple[str, ...] | None
    max_overhead: float | None = None
    """Share of a core per GPU for calls into the driver; None is the usual share for this rate."""
    host: bool = False
    """Whether the machine around the GPUs is recorded, too."""


def open_machine(name: str, clock: Clock) -> Machine:
    """The machine that a `Spec` names; imports only the module that it needs."""
    if name.startswith(SIMULATE):
        from gputel.telemetry.simulated import open_machine as simulate

        return simulate(name.removeprefix(SIMULATE), clock)
    if name.startswith(REPLAY):
        from gputel.telemetry.replay import open_machine as replay

        return replay(Path(name.removeprefix(REPLAY)), clock)
    from gputel.telemetry.nvml.devices import open_machine as open_nvml

    return open_nvml()


def run(spec: Spec, board: Board, stop_fds: Sequence[int], clock: Clock | None = None) -> int:
    """Sample until one of `stop_fds` is readable, then seal the store. Returns the exit code.

    Ends the process instead if a call into the driver or, at the end, to the disk has not returned: nothing else
    ends such a call.
    """
    clock = clock or SystemClock()
    sys.setswitchinterval(GIL_WAIT_S)
    sampler = Sampler(spec, board, clock)
    code = sampler.watch(stop_fds)
    if sampler.stuck or sampler.left_behind:
        os._exit(code)
    return code


@dataclass(frozen=True)
class Ready:
    """Everything that sampling needs, once the machine has been probed."""

    machine: Machine
    plan: planning.SamplingPlan
    budget: Budget
    store: Writer
    news: StatusWriter
    users: UserLooks | None
    facts: dict[str, object]
    """The facts of `sampling` in run.json that are known at the start."""


class Sampler:
    """Supervises the sampling thread: heartbeat, watchdog, board, and the seal at the end."""

    def __init__(self, spec: Spec, board: Board, clock: Clock) -> None:
        self._spec, self._board, self._clock = spec, board, clock
        self._seen_alive = board.heartbeat
        self._began = clock.monotonic()
        self._turn, self.cost = Turn(), SamplingCost(round(SECOND / spec.hz))
        self._folder_writer = FolderWriter(spec.folder, clock)
        self._watchdog = Watchdog(self._turn, self._succeed, self._event)
        self._prober: Prober | None = None
        self._ready: Ready | None = None
        self._loop: Loop | None = None
        self._fault: GputelError | None = None
        self._users: dict[str, UserLook] = {}
        self._host = (
            HostRecorder(spec.folder, clock, self._event, command=board.command, gpu_users=self._users)
            if spec.host
            else None
        )
        self._fault_reported = False
        self._is_late = False
        """Whether the fault is that the driver has not answered yet."""
        self._sealing = threading.Thread(target=self._seal, name="sealing", daemon=True)
        self._closes = ""
        self.left_behind: str | None = None
        """What the end gave up on."""
        self._thread = self._thread_for(self._start)

    @property
    def columns(self) -> int:
        """Number of recorded readings over all GPUs."""
        return sum(len(planned.tier.columns) for planned in self._ready.plan.tiers) if self._ready else 0

    @property
    def stuck(self) -> bool:
        """Whether a call into the driver has not returned."""
        return self._thread.is_alive() or self._watchdog.stuck()

    def watch(self, stop_fds: Sequence[int]) -> int:
        """Check every 250 ms whether to stop and whether a call hangs, and publish. Returns the exit code."""
        poll = select.poll()
        for descriptor in stop_fds:
            poll.register(descriptor, select.POLLIN | select.POLLHUP)
        published, described = 0, self._clock.monotonic()
        self._board.beat(described)
        if self._host is not None:
            self._host.start()
        self._publish("probing")
        while self._has_work() and not poll.poll(LOOK_EVERY_S * 1000):
            now = self._clock.monotonic()
            self._look(now)
            if now - published >= PUBLISH_EVERY:
                published = now
                self._publish(self._state())
                if self._ready:
                    self._ready.news.look_for_throttling()
            if now - described >= DESCRIBE_EVERY:
                described = now
                self._describe()
        return self._end()

    def _has_work(self) -> bool:
        return self._fault is None or self._is_late or self._host is not None

    def _state(self) -> str:
        if self._fault is not None:
            return "failed"
        return "sampling" if self._ready else "probing"

    def _look(self, now: int) -> None:
        self._board.beat(now)
        if self._fault is not None:
            self._report_fault(self._fault)
        elif self._prober is not None:
            self._watchdog.look(now, planning.PROBE_LIMIT if self._ready is None else watchdog.LIMIT)
        elif now - self._began > START_LIMIT:
            self._fault = GputelError("NVML", "the driver does not answer", "check `dmesg` and `nvidia-smi`")
            self._is_late = True

    def _end(self) -> int:
        """Seal in a thread, so that the heartbeat goes on while a slow disk writes, and one that hangs is left."""
        latest = self._clock.monotonic() + LONGEST_SEAL
        self._sealing.start()
        while self._sealing.is_alive() and (now := self._clock.monotonic()) < latest:
            self._board.beat(now)
            self._sealing.join(LOOK_EVERY_S)
        if self._sealing.is_alive():
            self.left_behind = f"{self._closes} did not end within {LONGEST_SEAL / SECOND:g} s"
        self._publish("failed" if self._fault else "ended")
        return self._fault.exit_code if self._fault else 0

    def _seal(self) -> None:
        self._turn.stopping = True
        waited_s = (self._clock.monotonic() - self._began) / SECOND
        self._thread.join(2.0)
        if self._ready is None:
            text = f"the driver had not answered within {waited_s:.3g} s, when the recording ended"
            if self._fault is not None:
                self._report_fault(self._fault)
            else:
                self._event("no_telemetry", text)
        elif not self.cost.ticks:
            self._event(
                "no_telemetry",
                f"the recording ended {waited_s:.3g} s after the sampler began, before its first sample",
            )
        with self._turn.lock:
            self._turn.generation += 1  # a stuck thread must not write after the seal
        if self._ready is not None:
            self._closes = "writing the last samples"
            self._ready.store.close()
            if self._loop is not None and not self.stuck:
                self._loop.look_at_counters()  # the last second has been decoded only now
            if not self.stuck:
                self._closes = "closing the driver"
                self._ready.machine.close()
        if self._host is not None:
            self._closes = "writing the tables of the machine"
            self._host.close()
        self._closes = "writing run.json"
        self._describe(last=True)
        self._folder_writer.close()

    def _report_fault(self, fault: GputelError) -> None:
        """Note once why no GPU is sampled; the machine around them is recorded on."""
        if not self._fault_reported:
            self._fault_reported = True
            self._event("no_telemetry", f"{fault.place}: {fault.fault}")
            self._publish("failed")

    def _start(self) -> None:
        """Open the machine, probe it and sample, all in threads that a hanging call may take."""
        self._prober = self._open()
        self._go_on()

    def _open(self) -> Prober:
        machine = open_machine(self._spec.machine, self._clock)
        gpus = choose(machine.gpus, self._spec.gpus)
        if not gpus:
            hint = "check `nvidia-smi -L`, or try --simulate 2xH100"
            raise GputelError("NVML", "the driver reports no GPU", hint)
        return Prober(machine, gpus, self._clock, self._turn)

    def _go_on(self) -> None:
        """Sample; the thread that takes over from a stuck one goes on from where that was."""
        assert self._prober is not None
        ready = self._ready
        if ready is None:
            ready = self._prepare(self._prober)
            ready.facts["priority"] = raise_priority()  # started earlier, the other threads would inherit it
            self._folder_writer.describe(sampling=ready.facts)
            gc.freeze()  # keeps collections short: existing objects are not scanned again
            self._ready = ready
            if self._is_late:
                self._fault, self._is_late = None, False
                self._event("gpu_back", "the driver answers: its GPUs are sampled from now on")
        else:
            raise_priority()
        self._loop = self._make_loop(ready)
        self._loop.run()

    def _prepare(self, prober: Prober) -> Ready:
        spec, clock, report = self._spec, self._clock, self._event
        plan = planning.arrange(prober.findings(), spec.hz, spec.max_overhead)
        if not plan.tiers:
            raise GputelError("NVML", "no GPU has a reading that can be recorded", "run `gputel doctor`")
        facts = {**plan.as_json(), "starts": self._starts()}
        self._describe_gpus(prober)
        self._folder_writer.describe(simulated=prober.machine.simulated)
        tiers = [planned.tier for planned in plan.tiers]
        parts = PartWriter(spec.folder / "gpu", tiers, clock, on_trouble=report, compactor=compact.start)
        prober.machine.listen(report)
        for gpu, why in prober.lost().items():
            report_lost(report, gpu, why)
        budget, status = Budget(plan, report), StatusWriter(prober.gpus, plan, report)
        asked = self._host is not None and self._board.command is not None
        users = UserLooks(prober.machine, prober.gpus, clock, self._users) if asked else None
        return Ready(prober.machine, plan, budget, Writer(parts), status, users, facts)

    def _event(self, kind: str, text: str, **facts: object) -> None:
        """Write an event. A GPU that is back may have become known only now."""
        self._folder_writer.event(kind, text, **facts)
        if kind == "gpu_back" and self._prober is not None:
            self._describe_gpus(self._prober)

    def _describe_gpus(self, prober: Prober) -> None:
        indexes = {gpu.index for gpu in prober.gpus}
        gpus = [gpu.as_json() for gpu in prober.machine.gpus if gpu.index in indexes]
        self._folder_writer.describe(gpus=gpus)

    def _starts(self) -> int:
        """How often this segment's sampler was started; reports the gap after the first start."""
        starts = _sampling_so_far(self._spec.folder).get("starts")
        if not isinstance(starts, int):
            if not self._seen_alive:
                return 1
            starts = 1  # the first sampler was killed before it wrote its plan
        gap = (self._clock.monotonic() - self._seen_alive) / SECOND if self._seen_alive else None
        text = "the sampler was restarted" + (f" after {gap:.1f} s" if gap else "")
        self._folder_writer.event("gap", text, seconds=gap and round(gap, 3))
        return starts + 1

    def _succeed(self) -> None:
        """Start a thread that takes over from the stuck one."""
        self._thread = self._thread_for(self._go_on)

    def _make_loop(self, ready: Ready) -> Loop:
        return Loop(
            ready.machine,
            ready.plan,
            ready.store,
            self._clock,
            cost=self.cost,
            budget=ready.budget,
            turn=self._turn,
            report=self._event,
            latest=ready.news.latest,
            rearranged=self._rearranged,
            users=ready.users,
        )

    def _rearranged(self, plan: planning.SamplingPlan) -> None:
        """The budget has moved readings to another tier."""
        assert self._ready is not None
        ready = replace(self._ready, plan=plan, facts={**self._ready.facts, **plan.as_json()})
        ready.news.arrange(plan)
        self._ready = ready
        self._describe()

    def _thread_for(self, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=self._guarded, args=(work,), name="sampling", daemon=True)
        thread.start()
        return thread

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Stale:
            return
        except GputelError as error:
            self._fault = error
        except Exception as error:
            self._fault = unexpected("sampler", error)
            raise

    def _describe(self, *, last: bool = False) -> None:
        ready, facts = self._ready, dict[str, object]()
        if ready is not None:
            not_kept = {"not_kept": dict(ready.store.not_kept)}
            statistics = {**self.cost.as_json(), **not_kept, "lowered": ready.budget.lowered()}
            facts["sampling"] = {**ready.facts, "statistics": statistics}
        if self._host is not None:
            facts["host_sampling"] = self._host.as_json()
        if facts and last:
            self._folder_writer.describe_end(**facts)
        elif facts:
            self._folder_writer.describe(**facts)

    def _publish(self, state: str) -> None:
        fault, ready = self._fault, self._ready
        self._board.publish(
            {
                "state": state,
                "error": fault and {"place": fault.place, "fault": fault.fault, "hint": fault.hint},
                "simulated": ready and ready.machine.simulated,
                "gpus": ready.news.gpus() if ready and self._board.shows_gpus else [],
                "hz": self.cost.hz,
                "left_behind": self.left_behind,
                "ticks": self.cost.ticks,
                "late": self.cost.late,
                "missed": self.cost.missed,
                "bytes": ready.store.bytes_written if ready else 0,
            }
        )


def _sampling_so_far(folder: Path) -> dict[str, object]:
    """The `sampling` facts that an earlier sampler wrote for this segment."""
    try:
        sampling = run_folder.describe(folder).get("sampling")
    except GputelError:
        return {}
    return sampling if isinstance(sampling, dict) else {}
