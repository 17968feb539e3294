"""Ranks: which one this is, how the model is spread over them, and how all of them stop and fail together.

Everything that one rank alone can know (a signal, its clock) travels as a vote in the sum that carries the loss
(see train.py), so that all ranks read the same numbers at the same step and stop together, at no extra cost.
"""

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeVar, final

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import DistError, GradBucket, PrefixStore, Store  # type: ignore[attr-defined]
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, bf16_compress_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.launcher.api import LaunchConfig
from torch.distributed.rendezvous import rendezvous
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.futures import Future
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from gputel.trainer.clock import StampClock
from gputel.trainer.say import RankError, TrainerError

Decision = TypeVar("Decision")
FIRST_FAILURE = "first failure"
TORCHRUN_GRACE_S = 30.0
STOPS = {"SIGINT": 2, "SIGTERM": 15}
SIGNALS = (*STOPS, "SIGUSR1")
IMPATIENT_SECONDS = 3.0
PADDED = ("embedding.weight", "head.weight")
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


@dataclass(frozen=True)
class World:
    rank: int
    local_rank: int
    size: int
    device: torch.device
    store: Store | None = None

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
        """An error in this block on one rank is raised on all ranks, after all have come to its end."""
        fault: Exception | None = None
        try:
            yield
        except Exception as error:  # of any type: else the others would wait for this rank for ever
            fault = error
        first = next(filter(None, self.gather(fault and RankError.by(self.rank, fault))), None)
        if first:
            raise first from fault

    def from_main(self, decide: Callable[[], Decision]) -> Decision:
        """Rank 0 decides, all others follow."""
        decision = None
        with self.together():
            if self.main:
                decision = decide()
        agreed: Decision = self.gather(decision)[0]
        return agreed


def join(device: str, timeout_s: float) -> World:
    """One process, or the rank that torchrun has made this process."""
    rank, local_rank, size = (int(os.environ.get(name, 0)) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
    here = _device(device, local_rank)
    if size <= 1:
        return World(rank, local_rank, 1, here)
    timeout = timedelta(seconds=timeout_s)
    store = _store_of_this_attempt(rank, size, timeout)
    backend = "nccl" if here.type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=timeout, store=store, rank=rank, world_size=size)
    return World(rank, local_rank, size, here, store)


def _device(wanted: str, local_rank: int) -> torch.device:
    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise TrainerError("--device cuda", "torch sees no GPU here", "see nvidia-smi, or take --device cpu")
    if local_rank >= (count := torch.cuda.device_count()):
        fault = f"there are only {count} GPUs"
        raise TrainerError(f"rank {local_rank} of this node", fault, f"take --nproc_per_node={count}")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def _store_of_this_attempt(rank: int, size: int, timeout: timedelta) -> Store:
    """After a restart torchrun hands out the store of the attempt before, with addresses of ranks that are
    dead (gloo then fails to connect, as often as not). On one node all ranks know the number of the attempt
    and take a prefix; nodes count for themselves, there TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 does it."""
    store: Store = next(rendezvous("env://", rank, size, timeout=timeout))[0]
    store.set_timeout(timeout)
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    one_node = os.environ.get("GROUP_WORLD_SIZE") == "1"
    return PrefixStore(f"attempt {attempt}", store) if attempt != "0" and one_node else store


def first_failure(where: World, fault: Exception) -> RankError | None:
    """The error of the rank that failed first: this one's, unless another has written its own into the store
    before. None where a connection is lost and no rank has said why, as when one was killed."""
    if isinstance(fault, RankError):
        return fault
    mine, lost = RankError.by(where.rank, fault), is_lost_connection(fault)
    try:
        assert where.store
        if lost and not where.store.check([FIRST_FAILURE]):
            return None
        first = where.store.compare_set(FIRST_FAILURE, "", json.dumps(vars(mine)))
    except (RuntimeError, ConnectionError):  # rank 0 held the store, and has ended
        return None if lost else mine
    return RankError(**json.loads(first))


def is_lost_connection(fault: Exception) -> bool:
    """Distributed and connection errors. gloo raises RuntimeError, which names a file of its source."""
    return isinstance(fault, DistError | ConnectionError) or "/gloo/transport/" in str(fault)


def leave(code: int, *, failed: bool) -> NoReturn:
    """End this rank at once, freeing nothing: gloo's thread drops its last tensors under the interpreter's lock,
    and a main thread that frees the process group holds that lock while it waits for the thread (one run in
    ten hung after its last line). NCCL wants its group destroyed, which after an error would wait for ranks
    that are gone."""
    if not failed and dist.is_initialized() and dist.get_backend() == "nccl":
        dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def grace_s() -> float | None:
    """How long torchrun waits after a signal until it kills its ranks; None where there seems to be no torchrun.
    Its option stands in its command alone; a torch that knows neither option nor variable waits 30 s."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    setting = None
    if hasattr(LaunchConfig, "shutdown_timeout"):
        setting = os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT")
        with suppress(OSError):  # not every system has /proc
            command = Path(f"/proc/{os.getppid()}/cmdline").read_text(errors="replace")
            if option := re.search(r"\0--shutdown[-_]timeout[=\0](\d+)", command):
                setting = option[1]
    return float(setting) if setting and setting.isdigit() else TORCHRUN_GRACE_S


@final
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
        fault = f"nothing happened for {self.timeout_s:g} s while {self.doing}; another rank hangs or is gone"
        sys.stderr.write(f"rank {self.where.rank}: {fault}; go on with --resume auto\n")
        sys.stderr.flush()
        os._exit(1)


@final
class StopSignals:
    """`stay`: the handlers outlast the block. torchrun ends all ranks when one has failed, and the others must
    still say which one."""

    def __init__(self, *, stay: bool = False) -> None:
        self.seen: dict[str, float] = {}
        self.stay = stay

    def __enter__(self) -> "StopSignals":
        self.before = {name: signal.signal(signal.Signals[name], self._note) for name in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for name, handler in () if self.stay else self.before.items():
            signal.signal(signal.Signals[name], handler)

    @property
    def since(self) -> float | None:
        """When the first signal came that ends the run, on the monotonic clock."""
        return min((when for name, when in self.seen.items() if name in STOPS), default=None)

    def votes(self) -> list[bool]:
        return [name in self.seen for name in SIGNALS]

    def _note(self, number: int, _: FrameType | None) -> None:
        name, now = signal.Signals(number).name, time.monotonic()
        first = self.seen.setdefault(name, now)
        if name == "SIGINT" and now - first > IMPATIENT_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


def sharded(parts: Sequence[nn.Module], where: World, *, bf16: bool) -> None:
    """Spread weights, gradients and optimizer over the ranks, in place, before the weights take any memory."""
    if not dist.is_initialized():
        fault = "there is one process, and nothing to spread over"
        raise TrainerError("--shard fsdp", fault, "start it with torchrun")
    mesh = init_device_mesh(where.device.type, (where.size,))
    halved = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for part in parts:
        fully_shard(part, mesh=mesh, mp_policy=halved if bf16 else MixedPrecisionPolicy())


def replicated(model: nn.Module, where: World, *, bucket_mb: float) -> nn.Module:
    """Behind DDP where there are several ranks."""
    if where.size == 1:
        return model
    devices = [where.local_rank] if where.device.type == "cuda" else None
    return DistributedDataParallel(model, devices, bucket_cap_mb=bucket_mb, gradient_as_bucket_view=True)


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


def accumulating(engine: nn.Module, *, last: bool, keep_whole: bool) -> AbstractContextManager[None]:
    """Must hold around forward and backward alike. Replicas send their gradients after the last micro-batch only.
    Sharded ones after each, since until then every rank holds all gradients in fp32, unless `keep_whole`."""
    if isinstance(engine, FSDPModule):
        engine.set_requires_gradient_sync(last or not keep_whole)
    elif isinstance(engine, DistributedDataParallel) and not last:
        return engine.no_sync()
    return nullcontext()


def at_rest(engine: nn.Module) -> None:
    """After forward passes without backward ones FSDP keeps weights whole: other tensors than the optimizer's."""
    for part in engine.modules():
        if isinstance(part, FSDPModule):
            part.reshard()


def placed(whole: Tensor, weight: Tensor) -> Tensor:
    """A whole tensor as `weight` lies: on its device, its vocabulary padded with zeros, and of a tensor that is
    sharded like `weight` the part of this rank."""
    if whole.ndim == 2 and whole.shape[0] < weight.shape[0]:
        whole = functional.pad(whole, (0, 0, 0, weight.shape[0] - whole.shape[0]))
    whole = whole.to(weight.device)
    if not isinstance(weight, DTensor) or whole.shape != weight.shape:
        return whole
    return distribute_tensor(whole, weight.device_mesh, weight.placements, src_data_rank=None)


def local_rows(name: str, tensor: Tensor, vocab: int) -> Tensor:
    """This rank's rows of a weight or of its optimizer state, without the padding of the vocabulary."""
    local, first = tensor.detach(), 0
    if isinstance(tensor, DTensor):
        mesh, local = tensor.device_mesh, tensor.to_local().detach()
        first = mesh.get_local_rank() * -(-tensor.shape[0] // mesh.size())
    if not name.startswith(PADDED) or not local.ndim:
        return local
    rows = max(0, vocab - first)
    return local if rows >= len(local) else local[:rows].clone()  # torch saves the whole storage of a view
