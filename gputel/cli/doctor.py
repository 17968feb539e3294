"""`gputel doctor`"""

from __future__ import annotations

from pathlib import Path

import click

from gputel.cli import options, show
from gputel.cli.help import Command

EXAMPLES = (
    "gputel doctor",
    "gputel doctor --simulate 2xH100",
    "gputel doctor --sync s3://bucket/runs/",
)


@click.command("doctor", cls=Command, examples=EXAMPLES)
@click.option("--simulate", metavar="2xH100", help="Check a simulated machine instead of the GPUs here.")
@click.option(
    "--out", default="runs", metavar="DIR", help="Where recordings will be written.", show_default=True
)
@click.option("--sync", "address", metavar="ADDRESS", help="Check object storage too, by writing to it.")
@options.json
@click.pass_context
def command(ctx: click.Context, simulate: str | None, out: str, address: str | None, as_json: bool) -> None:
    """Check what keeps this machine from recording well, and how to fix it."""
    from gputel.analysis.documents.doctor import doctor_document
    from gputel.analysis.report import checkup
    from gputel.telemetry import doctor

    machine = list(doctor.examine(Path(out)))
    if address is not None:
        from gputel.cli.sync import check_address
        from gputel.telemetry.remote.doctor import examine

        check_address(address)
        machine += examine(address)
    gpus, readings = checkup.check_gpus(f"simulate:{simulate}" if simulate else "nvml")
    checks = [gpus, *machine]
    if as_json:
        show.as_json({"findings": [check.as_json() for check in checks], "readings": readings})
    else:
        show.document(doctor_document(checks, readings))
    ctx.exit(1 if any(check.state == "bad" for check in checks) else 0)
