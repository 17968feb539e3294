"""`python -m gputel.trainer`, alone or under torchrun: options -> train, list checkpoints, write text."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gputel.trainer.errors import TrainerError
from gputel.trainer.options import Options, with_options

if TYPE_CHECKING:
    from gputel.trainer.distributed import World


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
    """List the checkpoints of a run: step, validation, age, size, whole or not."""
    from gputel.trainer import checkpoint

    folder = folder / "checkpoints" if (folder / "checkpoints").is_dir() else folder
    if prune:
        freed = checkpoint.prune(folder)
        click.echo(f"freed {freed / 2**20:,.1f} MiB", err=True)
    click.echo(f"{'checkpoint':<20} {'step':>8} {'val loss':>9} {'age':>8} {'MiB':>9}  state")
    for row in checkpoint.listed(folder):
        val = "-" if row.val_loss is None else f"{row.val_loss:.4f}"
        step = "-" if row.step is None else row.step
        age = "-" if row.saved is None else _age(time.time() - row.saved)
        links = f" ({', '.join(row.links)})" if row.links else ""
        click.echo(f"{row.name:<20} {step:>8} {val:>9} {age:>8} {row.size / 2**20:>9.1f}  {row.state}{links}")


@main.command()
@click.argument("ckpt", type=click.Path(exists=True, path_type=Path))
@click.option("--prompt", default="", help="What the text begins with.")
@click.option("--length", type=click.IntRange(1), default=200, show_default=True, help="Tokens to write.")
@click.option(
    "--temperature", type=click.FloatRange(0), default=0.8, show_default=True, help="0: the likeliest."
)
@click.option("--dice", type=int, default=0, show_default=True, help="Seed of the choice among tokens.")
def sample(ckpt: Path, prompt: str, length: int, temperature: float, dice: int) -> None:
    """Write text with a checkpoint folder or a weights file."""
    from gputel.trainer.weights import text_from

    try:
        click.echo(text_from(ckpt, prompt, tokens=length, temperature=temperature, seed=dice))
    except TrainerError as fault:
        click.echo(str(fault), err=True)
        sys.exit(1)


def _train(options: Options) -> int:
    """The exit code of one process; a rank of several never returns from here."""
    import torch

    from gputel.trainer.distributed import for_slow_network, leave, world

    network = for_slow_network() if options.network == "wan" else {}
    rank = None
    try:
        with world(options.device, options.rank_timeout) as where:
            rank = where.rank if where.size > 1 else None
            return _trained(options, where, network)
    except TrainerError as fault:
        line = str(fault) if not rank else None  # all ranks have met it
    except torch.OutOfMemoryError as fault:
        line = (
            f"out of memory: {str(fault).splitlines()[0]}; take a smaller --device-batch-size, or --recompute"
        )
    except (RuntimeError, ConnectionError) as fault:
        if rank is None:
            raise
        line = f"another rank is gone ({str(fault).splitlines()[0]}); go on with --resume auto"
    if line:
        click.echo(line if rank is None else f"rank {rank}: {line}", err=True)
    return 1 if rank is None else leave(1)


def _trained(options: Options, where: "World", network: dict[str, str]) -> int:
    from gputel.trainer.assemble import assembled, run_folder
    from gputel.trainer.banner import banner
    from gputel.trainer.budget import exit_code
    from gputel.trainer.distributed import leave
    from gputel.trainer.loop import train
    from gputel.trainer.say import Voice

    folder = Path(where.from_main(lambda: str(run_folder(options))))
    with Voice(folder if where.main else None) as voice:
        run = assembled(options, where, folder, voice)
        for line in [*banner(run), *(f"Network: {name}={value}" for name, value in network.items())]:
            voice.line(line)
        voice.event("run_start", **run.about())
        ended = train(run)
    code = 1 if ended.save_failed else exit_code(ended.reason)
    if where.size > 1:
        leave(code)
    return code


def _age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f}{unit}"
    return f"{seconds:.0f}s"


if __name__ == "__main__":
    main()
