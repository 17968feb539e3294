"""What a slow link between two ranks costs, and what helps: the gradients of a model over gloo, in a network
namespace whose loopback carries so many Mbit a second.

Buckets of 1 and of 100 MB, gradients in fp32 and bf16, one and four micro-batches a step take turns. Bytes are
those of the interface. Needs unshare, ip and tc: `python benchmarks/slow_link.py --mbit 200`
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from gputel.trainer.model import Model
from gputel.trainer.shape import shape_of

WAYS = {  # megabytes of a bucket, bf16, micro-batches
    "1 MB buckets, fp32": (1, False, 1),
    "100 MB buckets, fp32": (100, False, 1),
    "100 MB buckets, bf16": (100, True, 1),
    "100 MB buckets, bf16, 4 micro-batches": (100, True, 4),
}
SETUP = "ip link set lo up && tc qdisc add dev lo root tbf rate {}mbit burst 256kb latency 500ms && exec {}"


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--mbit", type=int, default=200)
    words.add_argument("--rounds", type=int, default=4)
    words.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = words.parse_args()
    if "RANK" in os.environ:
        rank(given.rounds)
    elif given.inside:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        place = {
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "OMP_NUM_THREADS": "1",
        }
        again = [sys.executable, *sys.argv]
        ranks = [
            subprocess.Popen(again, env={**os.environ, **place, "RANK": str(number)}) for number in range(2)
        ]
        sys.exit(max(process.wait() for process in ranks))
    else:
        command = f"{sys.executable} {__file__} --inside --rounds {given.rounds}"
        sys.exit(subprocess.call(["unshare", "-rn", "bash", "-c", SETUP.format(given.mbit, command)]))


def rank(rounds: int) -> None:
    """Prints what a step of each way takes and sends; each of its micro-batches holds 4 x 64 tokens."""
    dist.init_process_group("gloo")
    batch = torch.randint(256, (4, 65))
    engines = {name: engine(bucket, bf16) for name, (bucket, bf16, _) in WAYS.items()}
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    sent: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(rounds + 1):
        for name, (_, _, count) in WAYS.items():
            dist.barrier()
            began, before = time.monotonic(), bytes_of_loopback()
            for micro in range(count):
                with engines[name].no_sync() if micro < count - 1 else torch.enable_grad():
                    engines[name](batch[:, :-1], batch[:, 1:]).backward()
            dist.barrier()
            seconds[name].append((time.monotonic() - began) / count)
            sent[name].append((bytes_of_loopback() - before) / count / 2**20)
    for name in WAYS if dist.get_rank() == 0 else ():
        ms, mib = statistics.median(seconds[name][1:]) * 1e3, statistics.median(sent[name][1:])
        print(json.dumps({"way": name, "ms_of_a_micro_batch": round(ms), "mib": round(mib, 1)}), flush=True)
    dist.barrier()
    os._exit(0)  # see leave() in trainer/ranks.py


def engine(bucket_mb: int, bf16: bool) -> DistributedDataParallel:
    model = Model(shape_of(4, dim=256, vocab=256, seq=64))
    model.initialize(0)
    made = DistributedDataParallel(model, bucket_cap_mb=bucket_mb, gradient_as_bucket_view=True)
    if bf16:
        made.register_comm_hook(None, halved)
    return made


def halved(_: object, bucket: GradBucket) -> Future[Tensor]:
    """What torch's hook does, which wants NCCL."""
    travels = bucket.buffer().to(torch.bfloat16).div_(2)
    work = dist.all_reduce(travels, async_op=True)
    assert work
    arrived: Future[Tensor] = work.get_future().then(lambda _: bucket.buffer().copy_(travels))
    return arrived


def bytes_of_loopback() -> int:
    line = next(line for line in Path("/proc/net/dev").read_text().splitlines() if "lo:" in line)
    return int(line.split(":")[1].split()[0])


if __name__ == "__main__":
    main()
