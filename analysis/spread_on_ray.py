"""One function over many items on a Ray cluster: the results, in the order of the items.

Ray is the extra `ray`. Workers import gputel and open the paths themselves, so both must be there on every machine.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gputel.analysis.spread import BATCHES, Item, Result, Work, alike, heard, in_batches, work_off
from gputel.telemetry.errors import GputelError
from gputel.telemetry.host.cgroup import usable_cores

LARGEST_BATCH = 100  # items, whose results are lost together with their worker
STORE = 100 << 20  # bytes of shared memory; results are small, and Ray takes a third of the machine by itself
ANSWER_S = 10
TRIES = 3  # of a batch whose worker died, before its items are worked on alone


def spread_on_ray(
    work: Work[Item, Result],
    items: Sequence[Item],
    lost: Callable[[Item], Result],
    address: str | None = None,
) -> Iterator[Result]:
    """Yields the result of each item, as `spread` does; without an address on a cluster of this machine's cores."""
    with _cluster(address) as ray:
        count = max(int(ray.cluster_resources().get("CPU", 1)) * BATCHES, len(items) // LARGEST_BATCH)
        batches = in_batches(items, count, alike)
        task = ray.remote(max_retries=TRIES)(work_off)
        results = [task.remote(work, batch) for batch in batches]
        for batch, result in zip(batches, results, strict=True):
            try:
                yield from heard(ray.get(result))
            except _deaths(ray):
                yield from _one_by_one(ray, work, batch, lost)


def _one_by_one(
    ray: Any, work: Work[Item, Result], batch: Sequence[Item], lost: Callable[[Item], Result]
) -> Iterator[Result]:
    task = ray.remote(max_retries=0)(work_off)
    for item in batch:
        try:
            yield from heard(ray.get(task.remote(work, [item])))
        except _deaths(ray):
            yield lost(item)


def _deaths(ray: Any) -> tuple[type[Exception], ...]:
    """The exceptions that Ray raises if a worker ended without an answer."""
    return (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError, ray.exceptions.NodeDiedError)


@contextmanager
def _cluster(address: str | None) -> Iterator[Any]:
    """Yields Ray, connected to the cluster at the address, or to one that is started and ended here."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report its use
    try:
        import ray
    except ImportError:
        cores = usable_cores()
        hint = f"pip install 'gputel[ray]', or leave out --engine: it uses the {cores} cores of this machine"
        raise GputelError("--engine ray", "needs Ray", hint, exit_code=2) from None
    # its sockets' paths must be short
    folder = None if address else tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    try:
        with _same_debugger():
            _connect(ray, address, folder)
        yield ray
    finally:
        ray.shutdown()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _same_debugger() -> Iterator[None]:
    """Keeps the debugger that the user has: Ray names its own, for this process and each that it starts."""
    name = "PYTHONBREAKPOINT"
    before = os.environ.get(name)
    try:
        yield
    finally:
        os.environ.pop(name, None)
        if before is not None:
            os.environ[name] = before


def _connect(ray: Any, address: str | None, folder: str | None) -> None:
    options: dict[str, Any] = {
        "log_to_driver": False,
        "logging_level": "ERROR",
        "runtime_env": {"env_vars": {"POLARS_MAX_THREADS": "1"}},
    }
    if address:
        options["address"] = address
    else:
        options |= {"include_dashboard": False, "object_store_memory": STORE, "_temp_dir": folder}
        options["num_cpus"] = usable_cores()
    try:
        if address and ":" in address:
            _ask_for_answer(address)
        ray.init(**options)
    except (OSError, RuntimeError, ValueError) as error:
        raise _as_error(address, error) from None


def _ask_for_answer(address: str) -> None:
    """Connects once, as Ray tries for minutes where no server listens."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), ANSWER_S).close()


def _as_error(address: str | None, error: Exception) -> GputelError:
    """The reason why the cluster cannot be used, in one line; Ray takes several."""
    cause = " ".join(str(error).split())[:200]
    if "ersion mismatch" in cause:
        fault = (
            f"the cluster runs another Ray or Python than this {sys.version_info[0]}.{sys.version_info[1]}"
        )
        return GputelError("--address", fault, cause, exit_code=2)
    place = f"--address {address}" if address else "--engine ray"
    return GputelError(place, f"no cluster answers: {cause}", "see 'ray status' on its head", exit_code=2)
