"""`python -m gputel.trainer`, alone or under torchrun: options -> train, or write text."""

import os
import sys
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
    """Train a nanochat-style GPT: alone, or with torchrun on any number of GPUs, nodes or CPUs."""
    if context.invoked_subcommand is None:
        sys.exit(_train(Options(**given)))


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
    from gputel.trainer.ranks import join, leave, network_settings
    from gputel.trainer.train import train

    where, failed = None, False
    try:
        network_settings(options.network)  # NCCL reads them when the first ranks meet
        where = join(options.device, options.rank_timeout)
        code = train(options, where)
    except Exception as fault:
        if why := _why(fault, where):
            click.echo(why, err=True)
        code, failed = 1, True
    return leave(code, failed=failed) if int(os.environ.get("WORLD_SIZE", 1)) > 1 else code


def _why(fault: Exception, where: "World | None") -> str | None:
    """What this process says of the error that ends it: one line, or the traceback of a bug. Of several
    ranks the first to fail says that; the others name it, unless all may have met the same mistake."""
    from gputel.trainer.ranks import first_failure

    text = one_line(fault) if explains_itself(fault) else traceback.format_exc().rstrip()
    if where is None or where.size == 1:
        return text
    first, rank = first_failure(where, fault), f"rank {where.rank}"
    if first is None:
        return f"{rank}: another rank is gone ({one_line(fault)}); go on with --resume auto"
    if first.rank == where.rank:
        return f"{rank}: {text}"
    return None if first.mistake else f"{rank}: rank {first.rank} failed first ({first.line})"


if __name__ == "__main__":
    main()
