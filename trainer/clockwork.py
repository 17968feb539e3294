"""How long a step and its parts took, without waiting for the device: stamps in, milliseconds out.

On a GPU a stamp is an event in the stream, and only reading the loss waits for it; on a CPU it is the clock.
"""

import time
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel


def stamp(device: torch.device) -> Any:
    if device.type != "cuda":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


def ms_between(first: Any, second: Any) -> float:
    return float((second - first) * 1e3 if isinstance(first, float) else first.elapsed_time(second))


class Marks:
    """Where a step changes from one kind of work to the next."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.ended = device, 0.0
        self.marks: list[tuple[str, Any]] = []

    def now(self, kind: str) -> None:
        self.marks.append((kind, stamp(self.device)))

    def sent(self, figures: Tensor) -> Tensor:
        """Send a step's figures on their way to the host; the last mark."""
        if self.device.type == "cuda":
            figures = torch.empty(figures.shape, pin_memory=True).copy_(figures, non_blocking=True)
        self.now("end")
        self.ended = time.monotonic()
        return figures

    def read(self, figures: Tensor) -> list[float]:
        """The figures, once they are there."""
        if self.device.type == "cuda":
            self.marks[-1][1].synchronize()
            self.ended = time.monotonic()
        return [float(value) for value in figures.tolist()]

    def ms(self, kind: str) -> float:
        pairs = zip(self.marks, self.marks[1:], strict=False)
        return sum(ms_between(begin, end) for (what, begin), (_, end) in pairs if what == kind)


class Travels:
    """When gradients travelled, a bucket at a time: the backward pass goes on meanwhile. Not with gloo: its thread
    lets go of a hook's futures under the lock of a main thread that waits for it."""

    def __init__(self, engine: torch.nn.Module, device: torch.device) -> None:
        self.device, self.spans, self.timed = device, list[tuple[Any, Any]](), False
        if isinstance(engine, DistributedDataParallel) and device.type == "cuda":
            engine.register_comm_hook(None, self._hook)
            self.timed = True

    def taken(self) -> list[tuple[Any, Any]] | None:
        """Those since the last call; None where they are not asked for."""
        spans, self.spans = self.spans, []
        return spans if self.timed else None

    def _hook(self, _: object, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        began = stamp(self.device)

        def arrived(sent: torch.futures.Future[Tensor]) -> Tensor:
            self.spans.append((began, stamp(self.device)))
            return sent.value()

        assert dist.group.WORLD
        return allreduce_hook(dist.group.WORLD, bucket).then(arrived)
