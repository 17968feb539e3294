"""How a model is spread over ranks, all of it torch's own: DDP, or FSDP where one GPU is too small."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from gputel.trainer.distributed import World
from gputel.trainer.errors import TrainerError

PADDED = ("embedding.weight", "head.weight")


def sharded(parts: Sequence[nn.Module], where: World, *, bf16: bool) -> None:
    """Spread weights, gradients and optimizer over the ranks, in place, before the weights take any memory."""
    if not dist.is_initialized():
        fault = "there is one process, and nothing to spread over"
        raise TrainerError("--shard fsdp", fault, "start it with torchrun")
    mesh = init_device_mesh(where.device.type, (where.size,))
    halved = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for part in parts:
        fully_shard(part, mesh=mesh, mp_policy=halved if bf16 else MixedPrecisionPolicy())


def replicated(model: nn.Module, where: World) -> nn.Module:
    if where.size == 1:
        return model
    devices = [where.local_rank] if where.device.type == "cuda" else None
    return DistributedDataParallel(model, device_ids=devices, gradient_as_bucket_view=True)


def accumulating(engine: nn.Module, *, last: bool) -> AbstractContextManager[None]:
    """Gradients travel after the last micro-batch only; must hold around forward and backward alike."""
    if isinstance(engine, FSDPModule):
        engine.set_requires_gradient_sync(last)
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
    if not isinstance(weight, DTensor) or whole.shape != weight.shape:
        return whole.to(weight.device)
    mesh = weight.device_mesh
    rows = -(-whole.shape[0] // mesh.size())  # equal parts, the last ones shorter or empty
    part = whole[mesh.get_local_rank() * rows :][:rows].to(weight.device)
    shape, stride = whole.shape, whole.stride()
    return DTensor.from_local(part, mesh, weight.placements, run_check=False, shape=shape, stride=stride)


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
