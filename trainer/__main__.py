"""`python -m gputel.trainer`, alone or under torchrun: options -> train, list checkpoints, write text."""

import os
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gputel.trainer.options import WHOLE, ZERO_UP, Options, with_options
from gputel.trainer.say import TrainerError, explains_itself, one_line

if TYPE_CHECKING:
    from gputel.trainer.ranks import World


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@with_options
@click.pass_context
def main(context: click.Context, /, **given: Any) -> None:
    """Train a GPT of the users' shape: alone, or with torchrun on any number of GPUs, nodes or CPUs."""
    if context.invoked_subcommand is None:
        sys.exit(_train(Options(**given)))


@main.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--prune", is_flag=True, help="Keep the weights only: what is left cannot be resumed.")
def checkpoints(folder: Path, *, prune: bool) -> None:
    """List the checkpoints of a run: step, validation, age, size, complete or not."""
    from gputel.trainer import checkpoint

    folder = folder / "checkpoints" if (folder / "checkpoints").is_dir() else folder
    if prune:
        click.echo(f"freed {checkpoint.prune(folder) / 2**20:,.1f} MiB", err=True)
    links = [(link.readlink().name, link.name) for link in sorted(folder.iterdir()) if link.is_symlink()]
    click.echo(f"{'checkpoint':<20} {'step':>8} {'val loss':>9} {'age':>8} {'MiB':>9}  state")
    for row in checkpoint.listed(folder):
        step = "-" if row.step is None else row.step
        val = "-" if row.val_loss is None else f"{row.val_loss:.4f}"
        age = "-" if row.saved is None else _age(time.time() - row.saved)
        names = ", ".join(link for target, link in links if target == row.path.name)
        state = f"{row.state} ({names})" if names else row.state
        click.echo(f"{row.path.name:<20} {step:>8} {val:>9} {age:>8} {row.size / 2**20:>9.1f}  {state}")


@main.command()
@click.argument("ckpt", type=click.Path(exists=True, path_type=Path))
@click.option("--prompt", default="", help="What the text begins with.")
@click.option("--length", type=WHOLE, default=200, show_default=True, help="Tokens to write.")
@click.option("--temperature", type=ZERO_UP, default=0.8, show_default=True, help="0: the likeliest.")
@click.option("--dice", type=int, default=0, show_default=True, help="Seed of the choice among tokens.")
def sample(ckpt: Path, prompt: str, length: int, temperature: float, dice: int) -> None:
    """Write text with a checkpoint folder or a weights file."""
    from gputel.trainer.evaluate import text_from

    try:
        click.echo(text_from(ckpt, prompt, tokens=length, temperature=temperature, seed=dice))
    except TrainerError as fault:
        click.echo(str(fault), err=True)
        sys.exit(1)


def _train(options: Options) -> int:
    """The exit code of one process; a rank of several never returns from here."""
    from gputel.trainer.ranks import WAN, join, leave
    from gputel.trainer.train import train

    wan = WAN if options.network == "wan" else {}
    network = {name: os.environ.setdefault(name, value) for name, value in wan.items()}
    several, where = int(os.environ.get("WORLD_SIZE", 1)) > 1, None
    try:
        where = join(options.device, options.rank_timeout)
        code = train(options, where, network)
    except Exception as fault:
        line = _why(fault, where) if where and several else _line(fault)
        if line:
            click.echo(line, err=True)
        elif not where or not several:
            raise
        if several:
            leave(1, failed=True)
        return 1
    return leave(code, failed=False) if several else code


def _line(fault: Exception) -> str | None:
    """The error in one line, or None where it needs its traceback."""
    import torch

    if isinstance(fault, torch.OutOfMemoryError):
        return f"out of memory: {one_line(fault)}; take a smaller --device-batch-size, or --recompute"
    return one_line(fault) if explains_itself(fault) else None


def _why(fault: Exception, where: "World") -> str | None:
    """The reason for which one rank of several ends: the first to fail says all, the others name it. None where all
    have the same mistake in the options or files, which one line says."""
    from gputel.trainer.ranks import first_failure

    if isinstance(fault, TrainerError) and fault.rank is not None:
        return f"rank {where.rank}: {fault}" if fault.rank == where.rank else None
    first, line = first_failure(where, fault), _line(fault)
    if first is None:
        return f"rank {where.rank}: another rank is gone ({one_line(fault)}); go on with --resume auto"
    if first.rank == where.rank:
        return f"rank {where.rank}: {line or traceback.format_exc()}".rstrip()
    if isinstance(fault, TrainerError) and line == first.line:
        return None
    return f"rank {where.rank}: rank {first.rank} failed first ({first.line})"


def _age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f}{unit}"
    return f"{seconds:.0f}s"


if __name__ == "__main__":
    main()
