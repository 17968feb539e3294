"""`gputel doctor`"""

from __future__ import annotations

from pathlib import Path

import click


COLOURS = {"good": "green", "poor": "yellow", "bad": "red"}


@click.command("doctor", short_help="Say what keeps this machine from recording well, and how to fix it.")
@click.option("--simulate", metavar="2xH100", help="Examine a simulated machine instead of this one's GPUs.")
@click.option(
    "--out", default="runs", metavar="DIR", help="Where recordings will be written.", show_default=True
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@click.pass_context
def command(ctx: click.Context, simulate: str | None, out: str, as_json: bool) -> None:
    """Say what keeps this machine from recording well, and how to fix it."""
    from gputel.analysis.report import checkup
    from gputel.cli import show
    from gputel.telemetry import doctor

    machine = list(doctor.examine(Path(out)))
    gpus, readings = checkup.check_gpus(f"simulate:{simulate}" if simulate else "nvml")
    checks = [gpus, *machine]
    if as_json:
        show.as_json({"findings": [check.as_json() for check in checks], "readings": readings})
    else:
        _print(findings, readings)
    ctx.exit(1 if any(finding.state == "bad" for finding in findings) else 0)


def _print(findings: Sequence[Check], readings: Sequence[dict[str, Any]]) -> None:
    from gputel.cli import show

    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        state = f"{finding.state:<4}"
        said = show.folded(f"{state}  {finding.check:<{width}}  {finding.found}", width + 8)
        show.say(said.replace(state, click.style(state, fg=COLOURS[finding.state]), 1))
        if finding.hint:
            show.say(show.folded(f"{'':<{width + 8}}hint: {finding.hint}", width + 14))
    if readings:
        show.say("")
        names = ("gpu", "reading", "unit", "tier", "from", "latency µs", "refreshed Hz", "")
        show.table(names, [tuple(reading.values()) for reading in readings])
