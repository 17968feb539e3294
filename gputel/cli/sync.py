"""`gputel sync RUN ADDRESS`"""

from __future__ import annotations

import click

from gputel.cli.help import Command

EXAMPLES = (
    "gputel sync latest s3://bucket/runs/",
    "gputel sync runs/20261121-013500-d16 gs://bucket/d16",
)


@click.command("sync", cls=Command, examples=EXAMPLES)
@click.argument("run", metavar="RUN")
@click.argument("address", metavar="ADDRESS")
def command(run: str, address: str) -> None:
    """Send a run to object storage, from where every command reads it.

    RUN is a run folder, or `latest`. ADDRESS is s3://, gs:// or az://; with a slash at its end the run keeps its
    name below it. What is there already is not sent again, so a run that goes on can be sent as often as you like.
    """
    from gputel.analysis import progress, text
    from gputel.cli import show, sources
    from gputel.telemetry.errors import GputelError
    from gputel.telemetry.file_names import file_name
    from gputel.telemetry.remote import storage
    from gputel.telemetry.remote.courier import send

    if not storage.is_writable(address):
        raise GputelError(address, "is no address to send to", "such as s3://bucket/runs/", exit_code=2)
    path = sources.one_run(run)
    place = f"{address}{file_name(path.resolve().name)}" if address.endswith("/") else address
    target = storage.Storage(place, create=True)
    show.note("the output of the command is sent as it was printed")
    with progress.stage(f"sending {path.name}", 0.0):
        sent = send(path, target)
    for recorder in sent.unsealed:
        show.note(f"still being recorded by {recorder}: send it again after its end")
    if sent.objects:
        show.say(f"sent {text.count(sent.objects)} objects, {text.size(sent.bytes)}, to {target.address}")
    else:
        show.say(f"everything is at {target.address} already")
    show.note(f"next: gputel report {target.address}")
