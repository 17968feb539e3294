"""Times the steps of a training without ever waiting for the device.

Stamps mark places in the device's work: on a GPU an event in its stream, and the host may be a step ahead of it; a
CPU has done its work when a call returns, and the time is enough.
"""

import time
from itertools import pairwise
from typing import Any

import torch

Marks = list[tuple[str, Any]]  # a kind of work, and the stamp where it begins
Spans = list[tuple[Any, Any]]


class StampClock:
    """A step lasts from the end of the one before to its own, both as the device passed them. `ended` is when the
    last one did on the host's clock, to which the stamps are tied while the device is idle. `travels`, where it is
    a list, gets the times in which gradients travelled."""

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = device.type == "cuda"
        self.marks: Marks = []
        self.travels: Spans | None = None
        self.resume()

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

    def resume(self) -> None:
        """At the start and after a pause: a checkpoint or an evaluation is no part of a step."""
        self.last = self.stamp()
        self.wait(self.last)
        self.ended = self.now()

    def advance(self, end: Any) -> float:
        """Wait for the end of a step; its seconds."""
        self.wait(end)
        seconds = self.ms(self.last, end) / 1e3
        self.last, self.ended = end, self.ended + seconds
        return seconds

    def mark(self, kind: str) -> None:
        """Another kind of work begins here."""
        self.marks.append((kind, self.stamp()))

    def taken(self) -> tuple[Marks, Spans | None]:
        """The marks of a step, and when its gradients travelled, if that is timed."""
        taken = self.marks, self.travels
        self.marks, self.travels = [], None if self.travels is None else []
        return taken

    def parts_ms(self, marks: Marks) -> dict[str, float]:
        parts = dict.fromkeys((kind for kind, _ in marks), 0.0)
        for (kind, begin), (_, end) in pairwise(marks):
            parts[kind] += self.ms(begin, end)
        return parts

    def ms_of_any(self, spans: Spans) -> float:
        """How long at least one of these spans lasted: they overlap, and waiting in a queue is no work."""
        total = reached = 0.0
        for begin, end in sorted((self.ms(spans[0][0], b), self.ms(spans[0][0], e)) for b, e in spans):
            total += max(0.0, end - max(begin, reached))
            reached = max(reached, end)
        return total
