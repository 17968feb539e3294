"""What a run says of itself: its size, its GPUs, how it trained. A subject in, the words of a plan out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gputel.analysis import text
from gputel.analysis.planning import sizes
from gputel.analysis.planning.machine import Machine
from gputel.analysis.planning.memory import SHARDS, STATES, Recipe
from gputel.analysis.planning.sizes import Size
from gputel.telemetry.errors import GputelError
from gputel.trainer.gpus import find_gpu, gpus

if TYPE_CHECKING:
    from gputel.analysis.subjects import Subject

SAME_PEAK = 0.01
PRINTED_DIGITS = 1e-5  # FLOPs are printed with seven


def asked_of(subject: Subject) -> Size:
    """By depth and width where they are printed, else by the number of parameters."""
    facts, config = subject.facts, subject.log.config
    vocab = int(facts.vocab.value) if facts.vocab else sizes.VOCAB
    seq = int(facts.seq.value) if facts.seq else sizes.SEQ
    if facts.depth is not None:
        dim = int(facts.dim.value) if facts.dim else None
        heads = int(config["heads"]) if "heads" in config else None
        return _of_shape(int(facts.depth.value), dim, heads, vocab, seq)
    if facts.parameters is not None:
        parameters = int(facts.parameters.value)
        return sizes.of_parameters(parameters, text.count(parameters), vocab=vocab, seq=seq)
    raise GputelError(
        subject.name,
        "prints neither its depth nor its parameters",
        "name a run that does, or beside --check say --depth, --params or --layers",
    )


def as_printed(subject: Subject, asked: Size) -> Size:
    facts = subject.facts
    parameters = int(facts.parameters.value) if facts.parameters else asked.parameters
    flops = round(facts.flops_per_token.value) if facts.flops_per_token else asked.flops_per_token
    same = abs(flops / asked.flops_per_token - 1) < PRINTED_DIGITS
    return replace(asked, parameters=parameters, flops_per_token=asked.flops_per_token if same else flops)


def recipe_of(subject: Subject, planned: Recipe) -> Recipe:
    """How the run trained, as far as it tells; the rest is taken to be as planned."""
    config, argv = subject.log.config, _argv(subject)
    optimizer, shard = config.get("optimizer"), config.get("shard")
    told: dict[str, Any] = {}
    if optimizer in STATES:
        told["optimizer"] = optimizer
    if "mode" in config:  # a banner of the project's own trainer, which prints no shard where there is none
        told["compiled"] = config["mode"] == "compiled"
        told["dtype"] = "fp32" if config.get("precision") == "fp32" else "bf16"
        told["shard"] = shard if shard in SHARDS else "none"
        told["loss"] = "chunked"
    if argv:
        told["recompute"] = "--recompute" in argv
    return replace(planned, **told)


def machine_of(subject: Subject) -> Machine | None:
    """By the GPU's name; else by the peak that the printed MFU means, the first of the table that has it."""
    facts = subject.facts
    if facts.gpus is None:
        return None
    count = int(facts.gpus.value)
    gpu = find_gpu(str(facts.gpu.value)) if facts.gpu else None
    if gpu is None and facts.peak_flops is not None:
        each = float(facts.peak_flops.value) / count
        gpu = next((g for g in gpus() if g.peak_flops and abs(g.peak_flops / each - 1) < SAME_PEAK), None)
    return Machine(gpu, count) if gpu else None


def whole(subject: Subject, name: str) -> int | None:
    value = subject.log.config.get(name)
    return int(value) if isinstance(value, (int, float)) else None


def _of_shape(depth: int, dim: int | None, heads: int | None, vocab: int, seq: int) -> Size:
    if dim is None:
        return sizes.of_depth(depth, vocab=vocab, seq=seq)
    try:
        size = sizes.of_layers(depth, dim, heads, vocab=vocab, seq=seq)
    except GputelError:
        size = sizes.of_layers(depth, dim, None, vocab=vocab, seq=seq)
    usual = sizes.of_depth(depth, vocab=vocab, seq=seq)
    return usual if usual.shape.dim == dim else size


def _argv(subject: Subject) -> list[str]:
    """The command that was recorded; none of a bare log."""
    descriptions = subject.recording.descriptions if subject.recording else []
    return [str(word) for facts in descriptions for word in facts.get("argv") or []]
