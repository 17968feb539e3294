"""Ranks: who we are, how a model is spread over them, and how they agree without asking each other twice.

Everything that one rank alone can know (a signal, its clock) travels as a vote in the sum that carries the loss, so
that all ranks read the same numbers at the same step and stop together, at no extra cost.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import Any, NoReturn, final

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import PrefixStore, TCPStore
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from gputel.trainer.clockwork import Travels
from gputel.trainer.errors import TrainerError

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
IMPATIENT_SECONDS = 3.0


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
        if self.size == 1:
            return [mine]
        said: list[Any] = [None] * self.size
        dist.all_gather_object(said, mine)
        return said

    def agree(self, fault: str | None) -> None:
        """All ranks fail together, with the first fault that any of them saw."""
        faults = [said for said in self.gather(fault) if said]
        if faults:
            raise OSError(faults[0])

    def from_main(self, decide: Callable[[], Any]) -> Any:
        """Rank 0 decides, all others follow; where it fails, all do."""
        said: Any = None
        if self.main:
            try:
                said = ("is", decide())
            except (TrainerError, OSError) as fault:
                said = ("fails", fault)
        box = [said]
        if self.size > 1:
            dist.broadcast_object_list(box, src=0)
        verdict, value = box[0]
        if verdict == "fails":
            raise value
        return value


@contextmanager
def world(device: str, timeout_s: float) -> Iterator[World]:
    """One process, or the place that torchrun gave us."""
    rank, local_rank = int(os.environ.get("RANK", 0)), int(os.environ.get("LOCAL_RANK", 0))
    size = int(os.environ.get("WORLD_SIZE", 1))
    here = _device(device, local_rank)
    if size > 1:
        timeout = timedelta(seconds=timeout_s)
        store = _store_of_this_attempt(size, timeout)
        backend = "nccl" if here.type == "cuda" else "gloo"
        if store:
            dist.init_process_group(backend, timeout=timeout, store=store, rank=rank, world_size=size)
        else:
            dist.init_process_group(backend, timeout=timeout)
    yield World(rank, local_rank, size, here)


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
    if local_rank >= torch.cuda.device_count():
        raise TrainerError(
            f"rank {local_rank} of this node",
            f"there are only {torch.cuda.device_count()} GPUs",
            f"take --nproc_per_node={torch.cuda.device_count()}",
        )
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def for_slow_network() -> dict[str, str]:
    """Set what is not set yet; what holds afterwards."""
    return {name: os.environ.setdefault(name, value) for name, value in WAN.items()}


def compiled(model: nn.Module, blocks: Sequence[nn.Module], *, shard: str) -> None:
    """Whole, so that the loss fuses with the head; sharded, block by block, since gathering weights breaks a
    graph anyway."""
    for part in blocks if shard == "fsdp" else [model]:
        part.compile(dynamic=False)


def sharded(model: nn.Module, blocks: Sequence[nn.Module], where: World, *, bf16: bool) -> None:
    """Spread weights, gradients and optimizer over the ranks, in place, before the weights take any memory."""
    if not dist.is_initialized():
        raise TrainerError(
            "--shard fsdp", "there is one process, and nothing to spread over", "start it with torchrun"
        )
    mesh = init_device_mesh(where.device.type, (where.size,))
    halved = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    policy = halved if bf16 else MixedPrecisionPolicy()
    for block in blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)


def replicated(model: nn.Module, where: World, travels: Travels) -> nn.Module:
    if where.size == 1:
        return model
    on_gpu = where.device.type == "cuda"
    engine = DistributedDataParallel(
        model, device_ids=[where.local_rank] if on_gpu else None, gradient_as_bucket_view=True
    )
    if on_gpu:
        # not with gloo: its thread lets go of the hook's futures under the lock of a main thread that waits for it
        engine.register_comm_hook(None, travels.hook)
    return engine


def accumulating(engine: nn.Module, *, last: bool) -> AbstractContextManager[None]:
    """Gradients travel after the last micro-batch only; must hold around forward and backward alike."""
    if isinstance(engine, FSDPModule):
        engine.set_requires_gradient_sync(last)
    elif isinstance(engine, DistributedDataParallel) and not last:
        return engine.no_sync()
    return nullcontext()


@final
class Asked:
    """Signals as flags: INT and TERM ask for a checkpoint and the end, USR1 for a checkpoint. A second INT a while
    later ends at once (torchrun repeats the first one immediately, so only a late one is a person)."""

    NAMES = ("SIGINT", "SIGTERM", "SIGUSR1")

    def __init__(self) -> None:
        self.seen: dict[str, float] = {}

    def __enter__(self) -> "Asked":
        if threading.current_thread() is threading.main_thread():
            for name in self.NAMES:
                signal.signal(getattr(signal, name), self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            for name in self.NAMES:
                signal.signal(getattr(signal, name), signal.SIG_DFL)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        name, now = signal.Signals(number).name, time.monotonic()
        first = self.seen.setdefault(name, now)
        if name == "SIGINT" and now - first > IMPATIENT_SECONDS:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)

    def votes(self) -> list[float]:
        return [float(name in self.seen) for name in self.NAMES]

    def forget_usr1(self, heeded: set[str]) -> None:
        """It may be asked for again; the others end the run."""
        if "SIGUSR1" in heeded:
            self.seen.pop("SIGUSR1", None)


@final
class Watchdog:
    """Ends this process with a clear line when nothing has happened for too long: another rank hangs or is gone."""

    def __init__(self, where: World, timeout_s: float) -> None:
        self.where, self.timeout_s, self.doing = where, timeout_s, "starting"
        self.last = time.monotonic()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> "Watchdog":
        if self.where.size > 1:
            self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()

    def alive(self, doing: str) -> None:
        self.doing, self.last = doing, time.monotonic()

    def _watch(self) -> None:
        while not self.over.wait(min(1.0, self.timeout_s / 4)):
            if time.monotonic() - self.last > self.timeout_s:
                sys.stderr.write(
                    f"rank {self.where.rank}: nothing happened for {self.timeout_s:g} s while {self.doing}; "
                    "another rank hangs or is gone; go on with --resume auto\n"
                )
                sys.stderr.flush()
                os._exit(1)
