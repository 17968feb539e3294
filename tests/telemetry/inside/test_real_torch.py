"""Steps of a real PyTorch are counted as they are: gradient scaler, LBFGS, workers, DDP, a compiled step."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gputel.telemetry.inside import step_records, unseen
from tests.telemetry.inside.pythons import environment, run

pytest.importorskip("torch")
pytestmark = pytest.mark.long
BEGIN = """
import torch
from torch.utils.data import DataLoader, TensorDataset
def batches(count, **more):
    return DataLoader(TensorDataset(torch.ones(count, 4)), **more)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters())
def train(loader):
    for (batch,) in loader:
        model(batch).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
PARTS = {
    """
train(batches(6, num_workers=2))
""": [(1, 1, 1)] * 6,
    """
scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
for number, (batch,) in enumerate(batches(6)):
    loss = model(batch).sum() * (float("inf") if number == 2 else 1.0)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
""": [(1, 1, 1)] * 2 + [(2, 2, 1)] + [(1, 1, 1)] * 2,
    """
from torch.utils.checkpoint import checkpoint
for (batch,) in batches(4):  # with a gradient penalty
    batch.requires_grad_()
    loss = checkpoint(model, batch, use_reentrant=True).square().sum()
    (slope,) = torch.autograd.grad(model(batch).square().sum(), batch, create_graph=True)
    (loss + slope.square().sum()).backward()
    optimizer.step()
""": [(1, 2, 1)] * 4,
    """
lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=1)
for (batch,) in batches(4):
    def closure():
        lbfgs.zero_grad()
        loss = model(batch).square().sum()
        loss.backward()
        return loss
    lbfgs.step(closure)
""": [(1, 1, 1)] * 4,
    """
plain, model = model, torch.compile(model, backend="eager", fullgraph=True)
train(batches(4))
model = plain
""": [(1, 1, 1)] * 4,
    """
@torch.compile(backend="eager")
def step(batch):
    model(batch).square().sum().backward()
for (batch,) in batches(4):
    step(batch)
    optimizer.step()
""": [(1, 1, 1)] * 4,
    """
import traceback
try:
    model(torch.ones(1, 4)).backward(torch.ones(3))
except RuntimeError:
    traceback.print_exc()
train(DataLoader([[torch.ones(1, 4)], "x"], batch_size=None))
""": [(1, 1, 1)],
}
RANKS = """
import os
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
def rank(number, folder):
    dist.init_process_group("gloo", f"file://{folder}/meet", rank=number, world_size=2)
    wrapped = WRAPPED
    optimizer = torch.optim.AdamW(model.parameters())
    for (batch,) in batches(4):
        wrapped(batch).square().sum().backward()
        optimizer.step()
    del wrapped  # torch 2.13 may wait for itself for ever where this outlives the process group
    dist.destroy_process_group()
if __name__ == "__main__":
    mp.spawn(rank, (os.getcwd(),), nprocs=2)
"""


def counts(content: bytes) -> list[tuple[int, int, int]]:
    """Fetches, backwards and optimizer steps of each step."""
    rows = step_records.records(content[step_records.SIZE :])
    return [(row.fetches, row.backwards, row.optimizers) for row in rows if not row.flags & step_records.OPEN]


def test_steps_are_counted_and_the_output_is_as_without_hooks(meeting: Path, tmp_path: Path) -> None:
    plain, hooked = (
        run(Path(sys.executable), BEGIN + "".join(PARTS), environment(folder, level="steps"), cwd=tmp_path)
        for folder in (None, meeting)
    )
    assert (hooked.stdout, hooked.stderr, hooked.returncode) == (plain.stdout, plain.stderr, plain.returncode)
    (path,) = meeting.glob(f"*{step_records.ENDING}")
    assert counts(path.read_bytes()) == [count for counts in PARTS.values() for count in counts]
    assert unseen.failures(meeting) == []


@pytest.mark.parametrize("wrapped", ["DistributedDataParallel(model)", "fully_shard(model)"])
def test_ranks_of_a_training_are_named(wrapped: str, meeting: Path, tmp_path: Path) -> None:
    """`mp.spawn` sets no RANK: torch itself is asked."""
    script = BEGIN + RANKS.replace("WRAPPED", wrapped)
    process = run(Path(sys.executable), script, environment(meeting, level="steps"), cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    contents = [path.read_bytes() for path in meeting.glob(f"*{step_records.ENDING}")]
    heads = [head for content in contents if (head := step_records.header(content))]
    assert sorted((head.rank, head.world) for head in heads) == [(0, 2), (1, 2)]
    assert [counts(content) for content in contents] == [[(1, 1, 1)] * 4] * 2
