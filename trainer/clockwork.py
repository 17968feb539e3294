"""How long a step and its parts took, without waiting for the device: stamps in, milliseconds out.

On a GPU a stamp is an event in the stream, and only reading the loss waits for it; on a CPU it is the clock.
"""

import time
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import GradBucket


def stamp(device: torch.device) -> Any:
    if device.type != "cuda":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


def ms_between(first: Any, second: Any) -> float:
    if isinstance(first, float):
        return float(second - first) * 1e3
    return float(first.elapsed_time(second))


class Marks:
    """Where a step changes from one kind of work to the next."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.ended = device, 0.0
        self.marks: list[tuple[str, Any]] = []

    def now(self, kind: str) -> None:
        self.marks.append((kind, stamp(self.device)))

    def fetched(self, told: Tensor) -> Tensor:
        """Send a step's figures on their way to the host; the last mark."""
        if self.device.type == "cuda":
            told = torch.empty(told.shape, pin_memory=True).copy_(told, non_blocking=True)
        self.now("end")
        self.ended = time.monotonic()
        return told

    def read(self, told: Tensor) -> list[float]:
        """The figures, once they are there."""
        if self.device.type == "cuda":
            self.marks[-1][1].synchronize()
            self.ended = time.monotonic()
        return [float(value) for value in told.tolist()]

    def ms(self, kind: str) -> float:
        pairs = zip(self.marks, self.marks[1:], strict=False)
        return sum(ms_between(begin, end) for (what, begin), (_, end) in pairs if what == kind)


class Travels:
    """DDP's hook for a bucket of gradients: the mean over ranks, as DDP itself takes it, with a stamp at both ends.
    Buckets travel while the backward pass goes on, so these times overlap with it."""

    def __init__(self, device: torch.device, ranks: int) -> None:
        self.device, self.ranks = device, ranks
        self.spans: list[tuple[Any, Any]] = []

    def hook(self, _: object, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        began = stamp(self.device)
        future = dist.all_reduce(bucket.buffer().div_(self.ranks), async_op=True).get_future()

        def arrived(sent: torch.futures.Future[list[Tensor]]) -> Tensor:
            self.spans.append((began, stamp(self.device)))
            return sent.value()[0]

        travelled: torch.futures.Future[Tensor] = future.then(arrived)
        return travelled

    def taken(self) -> list[tuple[Any, Any]]:
        spans, self.spans = self.spans, []
        return spans


class Stopwatch:
    """The time of steps from one end to the next, with pauses left out, and the wall's over all attempts."""

    def __init__(self, wall_s_before: float) -> None:
        self.began, self.before = time.monotonic(), wall_s_before
        self.last = self.began

    def wall_s(self) -> float:
        return self.before + time.monotonic() - self.began

    def go(self) -> None:
        self.last = time.monotonic()

    def lap(self, ended: float) -> float:
        seconds, self.last = ended - self.last, ended
        return seconds
