"""`gputel sync RUN ADDRESS`, and what `gputel record` needs to send a run while it is recorded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gputel.cli.help import Command
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.telemetry.remote.courier import Sent
    from gputel.telemetry.remote.sidecar import Sending
    from gputel.telemetry.remote.storage import Storage

EXAMPLES = (
    "gputel sync latest s3://bucket/runs/",
    "gputel sync runs/20261121-013500-d16 gs://bucket/d16 --remove",
)


@click.command("sync", cls=Command, examples=EXAMPLES)
@click.argument("run", metavar="RUN")
@click.argument("address", metavar="ADDRESS")
@click.option("--remove", is_flag=True, help="Then remove it from this machine, once all was read back.")
def command(run: str, address: str, remove: bool) -> None:
    """Send a run to object storage, from where every command reads it.

    RUN is a run folder, or `latest`. ADDRESS is s3://, gs:// or az://; with a slash at its end the run keeps its
    name below it. What storage holds is not sent again, so a run that goes on can be sent as often as you like.
    """
    from gputel.analysis import progress, text
    from gputel.cli import show, sources
    from gputel.telemetry.remote.courier import send
    from gputel.telemetry.remote.storage import Storage

    path = sources.one_run(run)
    check(address, masks=is_masked(path))
    storage = Storage(place(address, path), create=True)
    with progress.stage(f"sending {path.name}", 0.0):
        sent = send(path, storage)
    for recorder in sent.unsealed:
        show.note(f"still being recorded by {recorder}: send it again after its end")
    if sent.objects:
        show.say(
            f"sent {text.counted(sent.objects, 'object')}, {text.size(sent.bytes)}, to {storage.address}"
        )
    else:
        show.say(f"everything is at {storage.address} already")
    if remove:
        _remove(path, storage, sent)
    show.note(f"next: gputel report {storage.address}")


def _remove(run: Path, storage: Storage, sent: Sent) -> None:
    """Removes a run that has ended from this machine."""
    from gputel.analysis import progress, text
    from gputel.cli import show
    from gputel.telemetry.remote import removal

    if sent.unsealed:
        raise GputelError(f"{run}", "is still being recorded", "nothing was removed")
    with progress.stage(f"reading back {run.name}", 0.0):
        removed = removal.remove(run, storage, sent.homes)
    show.say(f"removed {text.counted(removed.files, 'file')}, {text.size(removed.bytes)}, from {run}")
    if removed.left:
        count = text.counted(len(removed.left), "file")
        show.note(f"not removed, as it is never sent: {count}, such as {removed.left[0]}")


def check(address: str, argv: Sequence[str] = (), *, masks: bool = False) -> None:
    """Refuses what cannot work before anything is started, and says once what leaves the machine."""
    from gputel.cli import show
    from gputel.telemetry import identity
    from gputel.telemetry.remote import storage

    check_address(address)
    rank, nodes, _ = identity.node(os.environ, argv)
    if rank is None and nodes is not None and nodes > 1:
        fault = f"the command is one of {nodes} nodes, and which of them is not known"
        raise GputelError("--sync", fault, f"set NODE_RANK, from 0 to {nodes - 1}, on each", exit_code=2)
    if address.endswith("/") and rank is not None:
        raise GputelError(address, "several nodes need one name", f"name the run: {address}NAME", exit_code=2)
    storage.Storage(address, create=True)
    as_what = "with stars for its secrets" if masks else "as it was printed"
    show.note(f"the output of the command is sent {as_what}")


def is_masked(run: Path) -> bool:
    """Whether all segments were recorded with --sync-masked-output."""
    from gputel.telemetry import run_folder
    from gputel.telemetry.remote.courier import MASKS_OUTPUT

    segments = run_folder.open_folder(run).segments
    return all(run_folder.readable_facts(each.path, warn=False).get(MASKS_OUTPUT) for each in segments)


def check_address(address: str) -> None:
    from gputel.telemetry.remote import storage

    if not storage.is_writable(address):
        raise GputelError(address, "is no address to send to", "such as s3://bucket/runs/", exit_code=2)


def place(address: str, run: Path) -> str:
    """The address of a run: below one that ends with a slash it has its own name."""
    from gputel.telemetry.file_names import file_name

    return f"{address}{file_name(run.resolve().name)}" if address.endswith("/") else address


def check_push(address: str) -> None:
    """Refuses an address that figures cannot be pushed to."""
    from gputel.telemetry.remote.receiver import Receiver

    Receiver(address)


def sending(asked: Mapping[str, Any], run: Path, segment: Path) -> Sending | None:
    """The order for the process beside a recording, and for what its end sends; None without addresses.

    Figures bear the name that the run has in storage, which nodes without a disk in common agree on.
    """
    from gputel.telemetry import run_folder
    from gputel.telemetry.remote.courier import MASKS_OUTPUT
    from gputel.telemetry.remote.sidecar import PushOrder, Sending, SyncOrder
    from gputel.telemetry.secrets import mask

    address, server = asked["sync"], asked["push"]
    if not address and not server:
        return None
    if asked["sync_masked_output"]:
        run_folder.update(segment, **{MASKS_OUTPUT: True})
    run, segment = run.resolve(), segment.resolve()
    there = address and place(address, run)
    name = mask(there.rstrip("/").rpartition("/")[2] if there else run.name)
    rank = run_folder.describe(segment).get("node_rank")
    node = rank if isinstance(rank, int) else 0
    return Sending(
        SyncOrder(f"{run}", f"{segment}", there, bytes_per_s=asked["sync_rate"]) if there else None,
        PushOrder(f"{segment}", server, name, node) if server else None,
    )
