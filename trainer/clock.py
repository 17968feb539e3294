"""How long a step and its parts took, without waiting for the device: stamps in, milliseconds out.

On a GPU a stamp is an event in its stream, and the host may be a whole step ahead of it; so nothing is timed by
when the host read a figure. A step lasts from the end of the one before to its own, both as the device passed them.
"""

import time
from collections.abc import Iterable
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, bf16_compress_hook
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel


class StampClock(Protocol):
    """`stamp` marks a place in the device's work, `wait` returns when the device has passed it."""

    def stamp(self) -> Any: ...
    def wait(self, stamp: Any) -> None: ...
    def ms(self, first: Any, second: Any) -> float: ...
    def now(self) -> float: ...


class HostClock:
    """For a CPU, which has done its work when the call returns."""

    def stamp(self) -> float:
        return time.monotonic()

    def wait(self, stamp: float) -> None:
        pass

    def ms(self, first: float, second: float) -> float:
        return (second - first) * 1e3

    def now(self) -> float:
        return time.monotonic()


class CudaClock:
    def stamp(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def wait(self, stamp: torch.cuda.Event) -> None:
        stamp.synchronize()

    def ms(self, first: torch.cuda.Event, second: torch.cuda.Event) -> float:
        return float(first.elapsed_time(second))

    def now(self) -> float:
        return time.monotonic()


def clock_for(device: torch.device) -> StampClock:
    return CudaClock() if device.type == "cuda" else HostClock()


class Timeline:
    """Ends of steps on the host's clock, to which the device's stamps are tied while the device is idle."""

    def __init__(self, clock: StampClock) -> None:
        self.clock = clock
        self.resume()

    def resume(self) -> None:
        """At the start and after a pause: a checkpoint or an evaluation is no part of a step."""
        self.last = self.clock.stamp()
        self.clock.wait(self.last)
        self.ended = self.clock.now()

    def advance(self, end: Any) -> float:
        """The seconds of the step that ended there; `ended` is then when that was."""
        seconds = self.clock.ms(self.last, end) / 1e3
        self.last, self.ended = end, self.ended + seconds
        return seconds


class Marks:
    """Where a step changes from one kind of work to the next."""

    def __init__(self, clock: StampClock) -> None:
        self.clock = clock
        self.marks: list[tuple[str, Any]] = []

    def now(self, kind: str) -> None:
        self.marks.append((kind, self.clock.stamp()))

    def sent(self, figures: Tensor) -> Tensor:
        """Send a step's figures on their way to the host; the last mark."""
        if figures.is_cuda:
            figures = torch.empty(figures.shape, pin_memory=True).copy_(figures, non_blocking=True)
        self.now("end")
        return figures

    def read(self, figures: Tensor) -> list[float]:
        """The figures, once they are there."""
        self.clock.wait(self.end)
        return [float(value) for value in figures.tolist()]

    @property
    def end(self) -> Any:
        return self.marks[-1][1]

    def ms(self, kind: str) -> float:
        pairs = zip(self.marks, self.marks[1:], strict=False)
        return sum(self.clock.ms(begin, end) for (what, begin), (_, end) in pairs if what == kind)

    def ms_of_any(self, spans: Iterable[tuple[Any, Any]]) -> float:
        """How long at least one of these spans lasted: they overlap, and waiting in a queue is no work."""
        first = self.marks[0][1]
        total = reached = 0.0
        for begin, end in sorted(
            (self.clock.ms(first, begin), self.clock.ms(first, end)) for begin, end in spans
        ):
            total += max(0.0, end - max(begin, reached))
            reached = max(reached, end)
        return total


class Travels:
    """When gradients travelled, a bucket at a time, in bf16 if asked: the backward pass goes on meanwhile. Not with
    gloo: its thread lets go of a hook's futures under the lock of a main thread that waits for it."""

    def __init__(self, engine: torch.nn.Module, clock: StampClock, *, bf16: bool) -> None:
        self.clock, self.spans = clock, list[tuple[Any, Any]]()
        self.timed = isinstance(engine, DistributedDataParallel) and isinstance(clock, CudaClock)
        self.bf16 = bf16
        if isinstance(engine, DistributedDataParallel) and self.timed:
            engine.register_comm_hook(None, self._hook)

    def taken(self) -> list[tuple[Any, Any]] | None:
        """Those since the last call; None where they are not asked for."""
        spans, self.spans = self.spans, []
        return spans if self.timed else None

    def _hook(self, _: object, bucket: GradBucket) -> Future[Tensor]:
        began = self.clock.stamp()

        def arrived(sent: Future[Tensor]) -> Tensor:
            self.spans.append((began, self.clock.stamp()))
            return sent.value()

        assert dist.group.WORLD
        send = bf16_compress_hook if self.bf16 else allreduce_hook
        return send(dist.group.WORLD, bucket).then(arrived)
