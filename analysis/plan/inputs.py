"""The inputs of a plan: GPUs (`8xH100-PCIe`) as a Cluster, and a model (depth, layers or parameters) as a Size."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from difflib import get_close_matches

from gputel.analysis.runs.facts import estimated_flops
from gputel.telemetry.errors import GputelError
from gputel.trainer.gpus import GpuModel, find_gpu, gpus
from gputel.trainer.say import TrainerError
from gputel.trainer.shape import Shape, shape_of

DEEPEST = 256
VOCAB, SEQ = 65_536, 2048


@dataclass(frozen=True)
class Cluster:
    """`count` GPUs in total, spread evenly over `nodes`; `link_bytes_s` is the bandwidth between nodes."""

    gpu: GpuModel
    count: int
    nodes: int = 1
    link_bytes_s: float | None = None

    @property
    def peak_flops(self) -> float:
        """Peak of all GPUs; in fp16 if the chip has no bf16."""
        return self.gpu.half_flops * self.count

    @property
    def neighbor_bytes_s(self) -> float:
        """Bandwidth from a GPU to its neighbors; the table counts both directions."""
        return self.gpu.link_gb_s / 2 * 1e9

    @property
    def words(self) -> str:
        spread = f" on {self.nodes} nodes" if self.nodes > 1 else ""
        return f"{self.count} x {self.gpu.name}{spread}"


def machine(words: str, *, nodes: int = 1, link_bytes_s: float | None = None) -> Cluster:
    """Parses `2xH100`, `H100x2`, `H100`, `8 x A100 80GB PCIe`; raises GputelError for an unknown GPU."""
    count, name = _count_and_name(words)
    gpu = find_gpu(name)
    if gpu is None:
        near = _nearest_gpu(name)
        names = ", ".join(gpu.name for gpu in gpus())
        hint = f"did you mean {count}x{near.name}?" if near else f"it has {names}"
        raise GputelError(f"--on {words}", "no such GPU in the table", hint, exit_code=2)
    if count < 1:
        raise GputelError(f"--on {words}", "at least one GPU is needed", "say 1 or more", exit_code=2)
    if count % nodes:
        fault = f"{count} GPUs do not spread evenly over {nodes} nodes"
        raise GputelError(f"--nodes {nodes}", fault, "--on counts the GPUs of all nodes", exit_code=2)
    if nodes > 1 and link_bytes_s is None:
        fault = "communication time depends on the link between the nodes"
        raise GputelError(f"--nodes {nodes}", fault, "give it, such as --link 10Gbit", exit_code=2)
    return Cluster(gpu, count, nodes, link_bytes_s)


def _count_and_name(words: str) -> tuple[int, str]:
    """`2xH100`, `H100x2`, `8 x A100 80GB PCIe`: how many, and the name; one without a number."""
    first = re.fullmatch(r"\s*(\d+)\s*[x×*]\s*(\S.*?)\s*", words)
    if first:
        return int(first[1]), first[2]
    last = re.fullmatch(r"\s*(\S.*?)\s*[x×*]\s*(\d+)\s*", words)
    if last and find_gpu(words) in (None, find_gpu(last[1])):
        return int(last[2]), last[1]
    return 1, words.strip()


def _nearest_gpu(name: str) -> GpuModel | None:
    """The GPU whose name is most like a misspelled one; None if none is."""
    aliases = {alias.lower(): gpu for gpu in gpus() for alias in gpu.names}
    near = get_close_matches(name.lower(), aliases, 1)
    return aliases[near[0]] if near else None


@dataclass(frozen=True)
class Size:
    """A model size. `shape` gives the activations; for parameters alone it is the nearest nanochat-style shape."""

    name: str
    shape: Shape
    parameters: int
    flops_per_token: int
    tied: bool = False
    shape_is_guessed: bool = False

    @property
    def ends(self) -> int:
        """Parameters of embedding and head, which optimizers often treat separately."""
        return self.shape.vocab * self.shape.dim * (1 if self.tied else 2)

    @property
    def multiplying(self) -> int:
        """Weights with a 16-bit copy for multiplication; an embedding has none, unless it is also the head."""
        return self.parameters - (0 if self.tied else self.shape.vocab * self.shape.dim)


def of_depth(depth: int, *, vocab: int = VOCAB, seq: int = SEQ) -> Size:
    """Returns the nanochat-style model of a depth."""
    shape = shape_of(depth, vocab=vocab, seq=seq)
    return Size(f"d{depth}", shape, shape.parameters, shape.flops_per_token)


def of_layers(
    layers: int, dim: int, heads: int | None, *, vocab: int = VOCAB, seq: int = SEQ, tied: bool = False
) -> Size:
    """Returns a size of any layers and width. `tied`: one matrix is embedding and head, as in GPT-2."""
    try:
        shape = shape_of(layers, vocab=vocab, seq=seq, dim=dim, heads=heads)
    except TrainerError as error:
        raise GputelError(error.place, error.fault, error.hint, exit_code=2) from error
    parameters = shape.parameters - (vocab * dim if tied else 0)
    return Size(f"{layers}x{dim}", shape, parameters, shape.flops_per_token, tied)


def of_parameters(parameters: int, name: str, *, vocab: int = VOCAB, seq: int = SEQ) -> Size:
    """Returns a size of unknown shape: FLOPs are estimated from parameters."""
    near = min(
        (shape_of(depth, vocab=vocab, seq=seq) for depth in range(1, DEEPEST)),
        key=lambda shape: abs(math.log(shape.parameters / parameters)),
    )
    return Size(name, near, parameters, round(estimated_flops(parameters)), shape_is_guessed=True)


def with_seq(size: Size, seq: int) -> Size:
    """Returns the same model with another sequence length, which changes the work of attention."""
    shape = replace(size.shape, seq=seq)
    attention = 0 if size.shape_is_guessed else shape.flops_per_token - size.shape.flops_per_token
    return replace(size, shape=shape, flops_per_token=size.flops_per_token + attention)
