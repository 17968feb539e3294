"""The GPUs of a plan: `8xH100-PCIe` and what links the nodes in, a machine of the trainer's table of GPUs out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gputel.telemetry.errors import GputelError
from gputel.trainer.gpus import Gpu, find_gpu, gpus


@dataclass(frozen=True)
class Machine:
    """`count` GPUs in all, spread evenly over `nodes`; `link_bytes_s` is what one node can send to the others."""

    gpu: Gpu
    count: int
    nodes: int = 1
    link_bytes_s: float | None = None

    @property
    def peak_flops(self) -> float:
        """Of all GPUs; fp16 where the chip has no bf16."""
        return self.gpu.half_flops * self.count

    @property
    def neighbour_bytes_s(self) -> float:
        """What a GPU sends to its neighbours; the table counts both ways."""
        return self.gpu.link_gb_s / 2 * 1e9

    @property
    def words(self) -> str:
        spread = f" on {self.nodes} nodes" if self.nodes > 1 else ""
        return f"{self.count} x {self.gpu.name}{spread}"


def machine(words: str, *, nodes: int = 1, link_bytes_s: float | None = None) -> Machine:
    """`2xH100`, `H100`, `8 x A100 80GB PCIe`; a GputelError where the table has no such GPU."""
    found = re.fullmatch(r"\s*(?:(\d+)\s*[x×*]\s*)?(\S.*?)\s*", words)
    gpu = find_gpu(found[2]) if found else None
    count = int(found[1] or 1) if found else 0
    if gpu is None:
        known = ", ".join(gpu.name for gpu in gpus())
        raise GputelError(f"--on {words}", "no such GPU in the table", f"it has {known}", exit_code=2)
    if count < 1:
        raise GputelError(f"--on {words}", "no GPU at all trains nothing", "say 1 or more", exit_code=2)
    if count % nodes:
        fault = f"{count} GPUs do not spread evenly over {nodes} nodes"
        raise GputelError(f"--nodes {nodes}", fault, "--on counts the GPUs of all nodes", exit_code=2)
    if nodes > 1 and link_bytes_s is None:
        fault = "the time to share gradients depends on the link between the nodes"
        raise GputelError(f"--nodes {nodes}", fault, "give it, such as --link 10Gbit", exit_code=2)
    return Machine(gpu, count, nodes, link_bytes_s)
