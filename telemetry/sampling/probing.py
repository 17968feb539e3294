"""Probes the GPUs one after the other; one that hangs costs the others a second.

The watchdog gives up a thread that is stuck in a call, and its successor goes on with the next GPU. When the call
returns, the loop takes the GPU in.
"""

from __future__ import annotations

from collections.abc import Sequence

from gputel.telemetry.clock import SECOND, Clock
from gputel.telemetry.machine import NOT_OPEN, Gpu, Machine
from gputel.telemetry.sampling import plan
from gputel.telemetry.sampling.turn import Turn

LIMIT = SECOND
"""How long a call may take while a GPU is probed: the first of its kind takes longer than those that follow."""

HANGS = "hangs"


class Prober:
    """The findings so far; the threads that probe one after the other share it."""

    def __init__(self, machine: Machine, gpus: Sequence[Gpu], clock: Clock, turn: Turn) -> None:
        self.machine, self.gpus = machine, gpus
        self._clock, self._turn = clock, turn
        self._findings: dict[Gpu, list[plan.Probe]] = {}

    def findings(self) -> list[plan.Probe]:
        """Probe the GPUs that are left. Raises Stale in a thread that lost its turn."""
        generation = self._turn.generation
        for gpu in self.gpus:
            if gpu in self._turn.left_out:
                self._findings[gpu] = plan.silent(gpu, HANGS)
            elif gpu not in self._findings:
                self._findings[gpu] = plan.probe(
                    self.machine,
                    gpu,
                    self._clock,
                    lambda gpu: self._turn.calling(gpu, generation, self._clock),
                )
        return [finding for gpu in self.gpus for finding in self._findings[gpu]]

    def lost(self) -> dict[Gpu, str]:
        """Why GPUs were lost while they were probed; without those that hang or are not open, which have events."""
        faults = {gpu: self._findings[gpu][0] for gpu in self.gpus}
        return {
            gpu: finding.answer.fault
            for gpu, finding in faults.items()
            if finding.lost and finding.answer.fault not in (None, HANGS, NOT_OPEN)
        }
