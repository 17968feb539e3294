"""`gputel stacks RUN`"""

from __future__ import annotations

from pathlib import Path

import click

from gputel.cli import options, show
from gputel.cli.help import Command
from gputel.telemetry.errors import GputelError

EXAMPLES = (
    "gputel stacks",
    "gputel stacks runs/tiny --rounds 5 --every 10s",
)


@click.command("stacks", cls=Command, examples=EXAMPLES)
@click.argument("run", default="latest")
@click.option(
    "--rounds",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    help="How many times to look.",
    metavar="N",
)
@click.option(
    "--every",
    type=options.duration,
    default="2s",
    show_default=True,
    help="Time between two looks.",
    metavar="2s",
)
@options.json
def command(run: str, rounds: int, every: float, as_json: bool) -> None:
    """Show the line that each rank of a running training is in, and which rank holds up the others.

    RUN is a run folder that is being recorded on this machine with --inside stacks, or `latest`.
    """
    from gputel.analysis.documents.stacks import stacks_document
    from gputel.analysis.incidents import incident, process_states, verdict
    from gputel.cli import sources
    from gputel.telemetry.inside import ask, unseen

    folders = _folders(sources.one_run(run))
    looks = [ask.rounds(folder, rounds, every) for folder in folders]
    failures = [line for folder in folders for line in unseen.failures(folder)]
    found = process_states.standings(
        [[look for each in turn for look in each] for turn in zip(*looks, strict=True)]
    )
    judged = verdict.judge(found)
    if as_json:
        processes = [incident.process_json(each) for each in found]
        show.as_json(
            {
                "schema": 1,
                "verdict": judged and incident.verdict_json(judged),
                "processes": processes,
                "unseen": failures,
            }
        )
        return
    for line in failures:
        show.note(unseen.sentence(line))
    if not found and not failures:
        show.note("no process of the run has imported torch, jax or tensorflow yet")
    show.document(stacks_document(run, found, judged))


def _folders(run: Path) -> list[Path]:
    """The folders in memory of the segments that are being recorded here."""
    from gputel.telemetry import run_folder
    from gputel.telemetry.inside import environment

    facts = [run_folder.readable_facts(segment.path) for segment in run_folder.open_folder(run).segments]
    asked = [inside for each in facts if isinstance(inside := each.get("inside"), dict)]
    looking = [inside for inside in asked if inside.get("level") != "off"]
    folders = [folder for each in looking if (folder := environment.own_folder(each))]
    if folders:
        return folders
    if all(each.get("ended") for each in facts):
        raise GputelError(str(run), "has ended", f"what was seen of a hang is in {run}/incidents")
    if gone := next((str(inside["folder"]) for inside in looking if inside.get("folder")), ""):
        hint = "ask on the machine where the run is recorded, as the user who records it"
        raise GputelError(str(run), f"its folder {gone} is not here", hint)
    why = next((str(inside["reason"]) for inside in asked if inside.get("reason")), "")
    fault = "was recorded without stacks" + (f": {why}" if why else "")
    raise GputelError(str(run), fault, "record with --inside stacks, and ask on the machine where it runs")
