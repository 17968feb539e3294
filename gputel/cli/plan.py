"""`gputel plan`"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gputel.cli import options, show
from gputel.cli.help import Command, Groups
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.plan import Plan
    from gputel.analysis.plan.request import PlanRequest

NAME = "gputel-plan"
COUNT = click.IntRange(1)
NUMBER = click.IntRange(2)
POSITIVE = click.FloatRange(0, min_open=True)
option = partial(click.option, show_default=True)
flag = partial(click.option, is_flag=True)

EXAMPLES = (
    "gputel plan --depth 16,20,24 --on 8xH100 --price 4",
    "gputel plan --params 1.5B --on 8xA100 --tokens 30B",
    "gputel plan --depth 24 --on 2xH100 --like runs/d16",
)
GROUPS: Groups = {
    "The model": (
        "depth",
        "params",
        ("layers dim heads", "Instead: any shape.  [heads: dim / 128]"),
        "tied",
        ("vocab seq", "Vocabulary, sequence.  [default: 65536, 2048]"),
    ),
    "The machine": ("on", ("nodes link", "Nodes that hold them, and their link: 10Gbit.")),
    "The training": (
        "device-batch-size",
        "total-batch-size",
        ("ratio tokens", "Tokens: per parameter, or all.  [default: 20]"),
        "data-tokens",
        "optimizer",
        "dtype",
        "shard",
        "loss",
        (
            "recompute eager plain-attention",
            "Recompute activations; no compile; no flash.",
        ),
        (
            "save-every keep",
            "Checkpoints.  [default: every 1000, keep all]",
        ),
    ),
    "Limits, and runs to compare with": (
        ("hours budget", "The most time (31h, 90min), the most dollars."),
        "price",
        ("target-tok-s target-steps-h", "A rate of all GPUs: the MFU that it needs."),
        "like",
        "check",
    ),
    "Writing": (("csv html", "The rows as CSV, or one offline page."), options.OUT, "json"),
}


@click.command("plan", cls=Command, examples=EXAMPLES, groups=GROUPS)
@option("--depth", type=options.counts, metavar="N,N", help="Depths of a nanochat: 64 wide per layer.")
@option("--params", type=options.counts, metavar="N,N", help="Instead: numbers of parameters, such as 1.5B.")
@option("--layers", type=COUNT, metavar="N", help="Instead: any layers, with --dim and --heads.")
@option("--dim", type=NUMBER, metavar="N", help="Width, with --layers.")
@option("--heads", type=COUNT, metavar="N", help="Attention heads, with --layers.  [default: dim / 128]")
@flag("--tied", help="One matrix for embedding and head of --layers.")
@option("--vocab", type=NUMBER, metavar="N", help="Vocabulary.  [default: 65536]")
@option("--seq", type=NUMBER, metavar="N", help="Tokens in a sequence.  [default: 2048]")
@option("--on", metavar="NxGPU", help="GPUs of all nodes together, such as 8xH100-PCIe.")
@option("--nodes", type=COUNT, metavar="N", default=1, help="In how many nodes they stand.")
@option("--link", type=options.bytes_per_second, metavar="RATE", help="What links the nodes, such as 10Gbit.")
@option(
    "--device-batch-size",
    type=COUNT,
    metavar="N",
    help="Sequences on a GPU.  [default: what fits]",
)
@option("--total-batch-size", type=options.count, metavar="N", help="Tokens per step.  [default: 524288]")
@option("--ratio", type=POSITIVE, metavar="N", default=20.0, help="Tokens per parameter.")
@option("--tokens", type=options.count, metavar="N", help="Tokens to train on, such as 100B.")
@option("--hours", type=options.hours, metavar="31h", help="The most time; plain numbers are hours.")
@options.budget("The most dollars.")
@options.price
@option("--data-tokens", type=options.count, metavar="N", help="Tokens in the training data.")
@option(
    "--optimizer",
    type=click.Choice(["adamw", "muon", "sgd"]),
    help="Its state takes memory.  [default: adamw]",
)
@option(
    "--dtype",
    type=click.Choice(["bf16", "fp32", "pure-bf16"]),
    metavar="TYPE",
    help="bf16, fp32 or pure-bf16.  [default: bf16]",
)
@option(
    "--shard",
    type=click.Choice(["none", "zero1", "fsdp", "zero3"]),
    metavar="HOW",
    help="none, zero1, fsdp or zero3.  [default: none]",
)
@option(
    "--loss",
    type=click.Choice(["full", "chunked"]),
    help="Logits whole, or in chunks.  [default: full]",
)
@flag("--recompute", help="Activations are computed again in the backward pass.")
@flag("--eager", help="Without torch.compile.")
@flag("--plain-attention", help="Attention that keeps its scores.")
@option(
    "--save-every",
    type=click.IntRange(-1),
    metavar="N",
    default=1000,
    help="Steps between checkpoints; 0 or -1: only at the end.",
)
@option("--keep", type=COUNT, metavar="N", help="Checkpoints that stay on disk.  [default: all]")
@option(
    "--target-tok-s",
    type=options.count,
    metavar="N",
    help="A rate for all GPUs together: what MFU would it be?",
)
@option("--target-steps-h", type=POSITIVE, metavar="N", help="The same in steps an hour.")
@option("--like", metavar="RUN", help="Correct the plan by a run; take its options.")
@option("--check", metavar="RUN", help="Compare a run with its plan, made afterwards.")
@flag("--csv", help="Write the rows as CSV.")
@flag("--html", help="Write one offline page.")
@options.writing
@options.json
def command(check: str | None, out: Path, force: bool, as_json: bool, **asked: Any) -> None:
    """Estimate what a run will take before it starts: memory, time, money, energy.

    Name what to plan by --depth, --params or --layers; or give --budget or --hours for the largest depth that fits.
    """
    from gputel.analysis.documents.plan import plan_document
    from gputel.analysis.exports.tables import write_plan
    from gputel.analysis.plan import answer, request
    from gputel.analysis.runs.log_doubts import log_doubts

    if check:
        _print_check(check, asked, as_json=as_json)
        return
    options.checked(asked, out, NAME, {"csv": "csv"}, force=force)
    wanted = _request(asked)
    plan = request.plan(wanted)
    doubts = log_doubts(wanted.like) if wanted.like else ()
    document = replace(plan_document(plan), doubts=[f"{asked['like']}: {doubt.text}" for doubt in doubts])
    if asked["csv"]:
        show.note(f"wrote {write_plan(plan, out, NAME, force=force)}")
    if asked["html"]:
        options.write(document, ["html"], out, NAME, force=force)
    if as_json:
        show.as_json({**answer.answer(plan), "doubts": [doubt.as_json() for doubt in doubts]})
    else:
        show.document(document)
    _refuse_impossible(plan)


def _print_check(word: str, asked: dict[str, Any], *, as_json: bool) -> None:
    from gputel.analysis.documents.plan import check_document
    from gputel.analysis.plan import check as checks
    from gputel.analysis.plan import request
    from gputel.analysis.runs.log_doubts import log_doubts
    from gputel.cli import sources

    if asked["csv"] or asked["html"]:
        fault = "is printed, or given as JSON"
        raise GputelError("--check", fault, "leave out --csv and --html", exit_code=2)
    subject = sources.one_subject(word)
    check = request.check(subject, _request(asked))
    doubts = log_doubts(subject)
    if as_json:
        show.as_json({**checks.answer(check), "doubts": [doubt.as_json() for doubt in doubts]})
    else:
        show.document(replace(check_document(check), doubts=[doubt.text for doubt in doubts]))


def _request(asked: dict[str, Any]) -> PlanRequest:
    from gputel.analysis.plan.request import PlanRequest
    from gputel.cli import sources

    like = sources.one_subject(asked["like"]) if asked["like"] else None
    return PlanRequest(**{field.name: asked[field.name] for field in fields(PlanRequest)} | {"like": like})


def _refuse_impossible(plan: Plan) -> None:
    """Raises a GputelError for a target rate that these GPUs cannot reach."""
    impossible = [target.words for target in plan.targets if not target.possible]
    if impossible:
        raise GputelError("--target-tok-s", f"impossible: {'; '.join(impossible)}")
