"""How long a step and its parts took, without waiting for the device: stamps in, milliseconds out.

On a GPU a stamp is an event in its stream, and the host may be a whole step ahead of it; so nothing is timed by
when the host read a figure. A step lasts from the end of the one before to its own, both as the device passed them.
"""

import time
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, bf16_compress_hook
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel


class StampClock:
    """Stamps mark places in the device's work; a CPU has done its work when a call returns: the time is enough."""

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = device.type == "cuda"

    def stamp(self) -> Any:
        if not self.on_gpu:
            return time.monotonic()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def wait(self, stamp: Any) -> None:
        """Until the device has passed it."""
        if self.on_gpu:
            stamp.synchronize()

    def ms(self, first: Any, second: Any) -> float:
        return float(first.elapsed_time(second)) if self.on_gpu else (second - first) * 1e3

    def now(self) -> float:
        return time.monotonic()


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

    @property
    def end(self) -> Any:
        return self.marks[-1][1]

    def ms(self, kind: str) -> float:
        pairs = zip(self.marks, self.marks[1:], strict=False)
        return sum(self.clock.ms(begin, end) for (what, begin), (_, end) in pairs if what == kind)

    def ms_of_any(self, spans: Iterable[tuple[Any, Any]]) -> float:
        """How long at least one of these spans lasted: they overlap, and waiting in a queue is no work."""
        first, total, reached = self.marks[0][1], 0.0, 0.0
        for begin, end in sorted((self.clock.ms(first, b), self.clock.ms(first, e)) for b, e in spans):
            total += max(0.0, end - max(begin, reached))
            reached = max(reached, end)
        return total


class Travels:
    """When gradients travelled, a bucket at a time, in bf16 if asked: the backward pass goes on meanwhile. Not with
    gloo: its thread lets go of a hook's futures under the lock of a main thread that waits for it."""

    def __init__(self, engine: nn.Module, clock: StampClock, *, bf16: bool) -> None:
        self.clock, self.bf16, self.spans = clock, bf16, list[tuple[Any, Any]]()
        self.timed = isinstance(engine, DistributedDataParallel) and clock.on_gpu
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
