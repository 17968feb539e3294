"""Ranks: who we are, and how all of them fail together, or one by one with a clear line.

Everything that one rank alone can know (a signal, its clock) travels as a vote in the sum that carries the loss
(see loop.py), so that all ranks read the same numbers at the same step and stop together, at no extra cost.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

from gputel.trainer.errors import RankError, TrainerError, in_words

Decision = TypeVar("Decision")

# The settings with which people train over links between cities: no InfiniBand, few large buffers, many sockets.
WAN = {
    "NCCL_IB_DISABLE": "1",
    "NCCL_P2P_DISABLE": "1",
    "NCCL_BUFFSIZE": "4194304",
    "NCCL_MIN_NCHANNELS": "4",
    "NCCL_NSOCKS_PERTHREAD": "4",
    "NCCL_SOCKET_NTHREADS": "4",
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:512",
}


@dataclass(frozen=True)
class World:
    rank: int
    local_rank: int
    size: int
    device: torch.device

    @property
    def main(self) -> bool:
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def gather(self, mine: Any) -> list[Any]:
        """What every rank has to say, in the order of ranks."""
        gathered = [mine] * self.size
        if self.size > 1:
            dist.all_gather_object(gathered, mine)
        return gathered

    @contextmanager
    def together(self) -> Iterator[None]:
        """What goes wrong in this block on one rank goes wrong on all, after all have come to its end."""
        fault: Exception | None = None
        try:
            yield
        except Exception as error:  # whatever it is, the others would wait for us for ever
            fault = error
        failure = fault
        if fault and not isinstance(fault, TrainerError):
            failure = RankError(in_words(fault))
        first = next((each for each in self.gather(failure) if each), None)
        if first:
            raise first from fault

    def from_main(self, decide: Callable[[], Decision]) -> Decision:
        """Rank 0 decides, all others follow."""
        box: list[Any] = [None]
        with self.together():
            if self.main:
                box = [decide()]
        if self.size > 1:
            dist.broadcast_object_list(box, src=0)
        decision: Decision = box[0]
        return decision


def join(device: str, timeout_s: float) -> World:
    """One process, or the place that torchrun gave us."""
    rank, local_rank, size = (int(os.environ.get(name, 0)) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
    here = _device(device, local_rank)
    if size > 1:
        timeout = timedelta(seconds=timeout_s)
        store = _store_of_this_attempt(size, timeout)
        backend = "nccl" if here.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=timeout, store=store, rank=rank, world_size=size)
    return World(rank, local_rank, max(size, 1), here)


def _store_of_this_attempt(size: int, timeout: timedelta) -> PrefixStore | None:
    """After a restart torchrun hands out the store of the attempt before, with addresses of ranks that are
    dead (gloo then fails to connect, as often as not). On one node all ranks know the number of the attempt
    and can keep apart; nodes count for themselves, there TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 does it."""
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if attempt == "0" or os.environ.get("GROUP_WORLD_SIZE") != "1":
        return None
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    shared = TCPStore(host, port, size, is_master=False, timeout=timeout)
    return PrefixStore(f"attempt {attempt}", shared)


def leave(code: int) -> NoReturn:
    """End this rank at once, taking nothing apart: gloo's thread drops its last tensors under the
    interpreter's lock, and a main thread that frees the process group holds that lock while it waits for
    the thread (one run in ten hung after its last line)."""
    if dist.is_initialized() and dist.get_backend() == "nccl":
        dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _device(wanted: str, local_rank: int) -> torch.device:
    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise TrainerError("--device cuda", "torch sees no GPU here", "see nvidia-smi, or take --device cpu")
    count = torch.cuda.device_count()
    if local_rank >= count:
        fault = f"there are only {count} GPUs"
        raise TrainerError(f"rank {local_rank} of this node", fault, f"take --nproc_per_node={count}")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def for_slow_network() -> dict[str, str]:
    """Set what is not set yet; what holds afterwards."""
    return {name: os.environ.setdefault(name, value) for name, value in WAN.items()}


class RankWatchdog(threading.Thread):
    """Ends this process with a clear line when nothing has happened for too long: another rank hangs or is gone."""

    def __init__(self, where: World, timeout_s: float) -> None:
        super().__init__(name="watchdog", daemon=True)
        self.where, self.timeout_s = where, timeout_s
        self.alive("starting")
        if where.size > 1:
            self.start()

    def alive(self, doing: str) -> None:
        self.doing, self.last = doing, time.monotonic()

    def run(self) -> None:
        while time.monotonic() - self.last <= self.timeout_s:
            time.sleep(min(1.0, self.timeout_s / 4))
        sys.stderr.write(
            f"rank {self.where.rank}: nothing happened for {self.timeout_s:g} s while {self.doing}; "
            "another rank hangs or is gone; go on with --resume auto\n"
        )
        sys.stderr.flush()
        os._exit(1)
