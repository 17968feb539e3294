"""How gradients travel between ranks: in buckets, which are timed, and over slow links in bf16 and fewer, larger
ones, with NCCL's settings for such links."""

import os

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, bf16_compress_hook
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from gputel.trainer.clock import StampClock

# For links between cities: no InfiniBand, large buffers, many sockets. NVLink inside a node stays, and computation
# still overlaps with communication.
WAN = {
    "NCCL_IB_DISABLE": "1",
    "NCCL_BUFFSIZE": "4194304",
    "NCCL_MIN_NCHANNELS": "4",
    "NCCL_NSOCKS_PERTHREAD": "4",
    "NCCL_SOCKET_NTHREADS": "4",
    "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:512",
}
BUCKET_MB = {"default": 25, "wan": 100}  # a slow link carries few large buckets better than many small


def network_settings(network: str) -> list[str]:
    """Sets what a slow link needs and the user has not set; the lines that say so."""
    if network != "wan":
        return []
    return [f"Network: {name}={os.environ.setdefault(name, value)}" for name, value in WAN.items()]


def time_travels(engine: nn.Module, clock: StampClock, *, bf16: bool) -> None:
    """Note when gradients travel, a bucket at a time, in bf16 if asked: the backward pass goes on meanwhile.
    Not with gloo: its thread frees a hook's futures under the lock of a main thread that waits for it."""
    if not (clock.on_gpu and isinstance(engine, DistributedDataParallel)):
        return
    send, clock.travels = bf16_compress_hook if bf16 else allreduce_hook, []

    def hook(_: object, bucket: GradBucket) -> Future[Tensor]:
        began = clock.stamp()

        def arrived(sent: Future[Tensor]) -> Tensor:
            assert clock.travels is not None
            clock.travels.append((began, clock.stamp()))
            return sent.value()

        assert dist.group.WORLD
        return send(dist.group.WORLD, bucket).then(arrived)

    engine.register_comm_hook(None, hook)
