"""Every option of a training run: the table from which the command line is made.

None means "not said": what then holds depends on the device, the data or the shape, and is settled in plan.py.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

WHOLE, NATURAL = click.IntRange(1), click.IntRange(0)
POSITIVE, ZERO_UP = click.FloatRange(0, min_open=True), click.FloatRange(0)
PART, SHARE = click.FloatRange(0, 1, max_open=True), click.FloatRange(0, 1, min_open=True)
PATH = click.Path()


def option(default: Any, kind: Any, about: str) -> Any:
    return field(default=default, metadata={"kind": kind, "about": about})


def choice(*words: str) -> click.Choice[str]:
    return click.Choice(words)


@dataclass(frozen=True)
class Options:
    depth: int = option(12, WHOLE, "layers; dim is 64 times that")
    dim: int | None = option(None, WHOLE, "width [64 x depth]")
    heads: int | None = option(None, WHOLE, "attention heads [ceil(dim / 128)]")
    vocab: int | None = option(None, click.IntRange(2), "vocabulary [the tokenizer's]")
    seq: int | None = option(None, WHOLE, "tokens in a sequence [2048; 256 on a CPU]")
    dropout: float = option(0.0, PART, "dropout")

    steps: int | None = option(None, WHOLE, "optimizer steps [from --tokens, --epochs or --ratio]")
    tokens: int | None = option(None, WHOLE, "train on this many tokens")
    epochs: float | None = option(None, POSITIVE, "pass over the data this often")
    ratio: float = option(20.0, POSITIVE, "tokens per parameter, where nothing else is said")
    stop_at: int | None = option(None, WHOLE, "end after this step, the schedule unchanged")
    hours: float | None = option(None, POSITIVE, "end after this many hours")
    budget: float | None = option(None, POSITIVE, "end when this many dollars are spent")
    price: float | None = option(None, POSITIVE, "dollars per GPU hour, for --budget")
    patience: int | None = option(None, WHOLE, "end after this many evaluations without improvement")
    max_skips: int = option(10, WHOLE, "end after this many non-finite steps in a row")

    device_batch_size: int | None = option(None, WHOLE, "sequences at once on a device [16; 8 on a CPU]")
    total_batch_size: int | None = option(
        None, WHOLE, "tokens in a step [524288; on a CPU one batch per rank]"
    )
    lr: float | None = option(None, POSITIVE, "peak rate of matrices [0.02; AdamW: 0.02 / sqrt(dim)]")
    embedding_lr: float | None = option(None, POSITIVE, "peak rate of the embedding [0.2 x sqrt(768 / dim)]")
    head_lr: float | None = option(None, POSITIVE, "peak rate of the head [0.004 x sqrt(768 / dim)]")
    lr_floor: float = option(0.0, PART, "part of the peak rates that is left at the end")
    warmup_steps: int = option(0, NATURAL, "steps of warm-up")
    schedule: str = option("warmdown", choice("warmdown", "cosine"), "after the warm-up")
    warmdown_ratio: float = option(0.5, SHARE, "part of the run that warms down")
    optimizer: str = option("muon", choice("muon", "adamw"), "for matrices; embedding and head have AdamW")
    weight_decay: float = option(0.0, ZERO_UP, "decay of matrices")
    grad_clip: float = option(1.0, ZERO_UP, "largest gradient norm; 0: do not clip")

    data: str | None = option(
        None, str, "file or folder, or a mixture a=0.65,b=0.35 [Python's standard library]"
    )
    val_data: str | None = option(None, str, "file or folder for validation [a part of --data]")
    tokenizer: str | None = option(
        None, str, "bytes, chars, or a tokenizers or tiktoken file [bytes for text]"
    )
    seed: int = option(0, click.IntRange(0, 2**31 - 1), "of weights, shuffling and dropout")

    out: str | None = option(None, PATH, "folder of the run [runs/NAME, or the next free name]")
    run_name: str | None = option(None, str, "name of the run [dDEPTH]")
    log_every: int = option(1, WHOLE, "steps from one line to the next")
    tensorboard: bool = option(False, bool, "write TensorBoard files too")

    save_every: int = option(1000, NATURAL, "steps between checkpoints; 0: never by steps")
    save_minutes: float = option(30.0, ZERO_UP, "minutes between checkpoints; 0: never by time")
    keep: int = option(10, WHOLE, "rolling checkpoints; best and epoch ones are kept besides")
    resume: str | None = option(None, str, "auto (go on if there is something), latest, best, or a path")

    eval_every: int = option(250, NATURAL, "steps between evaluations; 0: never")
    eval_tokens: int | None = option(None, WHOLE, "tokens of a validation [2M; 64k on a CPU]")
    hellaswag: str | None = option(None, PATH, "multiple-choice questions, a jsonl in HellaSwag's form")
    sample_prompt: str | None = option(None, str, "write text from this prompt at every evaluation")
    sample_tokens: int = option(64, WHOLE, "tokens of a text sample")

    device: str = option("auto", choice("auto", "cpu", "cuda"), "where to train")
    dtype: str = option("auto", choice("auto", "bf16", "fp32"), "bf16: autocast [bf16 on a GPU that has it]")
    fp8: bool = option(False, bool, "matrices of the blocks multiplied in eight bits, where the GPU does it")
    compile: bool | None = option(None, bool, "torch.compile [on a GPU]")
    recompute: bool = option(
        False, bool, "compute activations again in the backward pass: less memory, more work"
    )
    shard: str = option("none", choice("none", "fsdp"), "fsdp: weights and optimizer spread over ranks")
    keep_whole_gradients: bool = option(
        False, bool, "fsdp: gradients travel once a step, not once a micro-batch: less traffic, more memory"
    )
    network: str = option(
        "default",
        choice("default", "wan"),
        "wan: for slow links: large buckets of gradients in bf16, and NCCL's settings where not set",
    )
    rank_timeout: float = option(600.0, click.FloatRange(1), "seconds without progress until a rank gives up")


def with_options(command: Command) -> Command:
    """Give a click command one option per field; it is called with keywords that make an Options."""
    for entry in reversed(fields(Options)):
        name, kind = "--" + entry.name.replace("_", "-"), entry.metadata["kind"]
        flag = f"{name}/--no-{name[2:]}" if kind is bool else name
        command = click.option(
            flag,
            entry.name,
            type=None if kind is bool else kind,
            default=entry.default,
            help=entry.metadata["about"],
            show_default=entry.default is not None,
        )(command)
    return command
