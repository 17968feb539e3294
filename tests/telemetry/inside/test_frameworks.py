"""Steps of frameworks are counted as they are, where these are installed; what is trained is as without the hooks.

They are not in the development environment: `pip install accelerate deepspeed lightning transformers` into it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from gputel.telemetry.inside import step_records, unseen
from tests.ports import free_port
from tests.telemetry.inside.pythons import environment, run
from tests.telemetry.inside.test_real_torch import counts

pytest.importorskip("torch")
pytestmark = pytest.mark.long
BEGIN = """
import torch
from torch.utils.data import DataLoader
torch.manual_seed(0)
"""
END = """
print("trained", sum(float(each.detach().double().sum()) for each in model.parameters()))
"""


class Training(NamedTuple):
    """A script that defines `model`, and the fetches, backwards and optimizer steps of each of its steps."""

    needs: str
    script: str
    steps: list[tuple[int, int, int]]


TRAININGS = {
    "Hugging Face's Trainer, accumulating, with evaluations": Training(
        "transformers",
        """
from transformers import Trainer, TrainingArguments
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def forward(self, x, labels):
        found = self.layer(x)
        return {"loss": (found - labels).square().mean(), "logits": found}
rows = [{"x": torch.rand(4), "labels": torch.ones(1)} for _ in range(24)]
model = Model()
settings = TrainingArguments(
    "out", max_steps=8, per_device_train_batch_size=2, gradient_accumulation_steps=2, use_cpu=True,
    eval_strategy="steps", eval_steps=3, save_strategy="no", report_to=[], disable_tqdm=True,
)
Trainer(model, settings, train_dataset=rows, eval_dataset=rows[:6]).train()
""",
        # accelerate reads one batch ahead, so that it knows which is the last of an epoch
        [(3, 2, 1), *[(2, 2, 1)] * 4, (0, 2, 1), (3, 2, 1), (2, 2, 1)],
    ),
    "accelerate, accumulating, with two workers": Training(
        "accelerate",
        """
from accelerate import Accelerator
accelerator = Accelerator(gradient_accumulation_steps=4, cpu=True)
model = torch.nn.Linear(4, 1)
loader = DataLoader(torch.rand(32, 4), batch_size=2, num_workers=2)
optimizer = torch.optim.SGD(model.parameters())
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(2):
    for batch in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(batch).square().mean())
            optimizer.step()
            optimizer.zero_grad()
""",
        [(5, 4, 1), *[(4, 4, 1)] * 2, (3, 4, 1)] * 2,
    ),
    "Lightning, accumulating": Training(
        "lightning",
        """
import lightning
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())
    def training_step(self, batch, number):
        return self.layer(batch).square().mean()
    def validation_step(self, batch, number):
        self.log("loss", self.layer(batch).square().mean())
model = Model()
trainer = lightning.Trainer(
    max_epochs=2, accumulate_grad_batches=2, accelerator="cpu", logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)
trainer.fit(model, *[DataLoader(torch.rand(count, 4), batch_size=2) for count in (16, 6)])
""",
        [(2, 2, 1)] * 8,
    ),
    "Lightning with two optimizers by hand": Training(
        "lightning",
        """
import lightning
class Model(lightning.LightningModule):
    automatic_optimization = False
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 1) for _ in range(2))
    def configure_optimizers(self):
        return [torch.optim.Adam(layer.parameters()) for layer in self.layers]
    def training_step(self, batch, number):
        for optimizer, layer in zip(self.optimizers(), self.layers):
            optimizer.zero_grad()
            self.manual_backward(layer(batch).square().mean())
            optimizer.step()
model = Model()
trainer = lightning.Trainer(
    max_epochs=1, accelerator="cpu", logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)
trainer.fit(model, DataLoader(torch.rand(8, 4), batch_size=2))
""",
        [(1, 1, 1), (0, 1, 1)] * 4,
    ),
    "DeepSpeed, accumulating": Training(
        "deepspeed",
        """
import deepspeed
model = torch.nn.Linear(4, 1)
engine, _, loader, _ = deepspeed.initialize(
    model=model, model_parameters=model.parameters(), training_data=list(torch.rand(16, 4)), config={
        "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2,
        "optimizer": {"type": "AdamW", "params": {"torch_adam": True}},
    },
)
for batch in loader:
    engine.backward(engine(batch).square().mean())
    engine.step()
""",
        [(2, 2, 1)] * 4,
    ),
}
ALONE = {
    "RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_RANK": "0",
    "MASTER_ADDR": "127.0.0.1",
    "DS_ACCELERATOR": "cpu",
}


@pytest.mark.parametrize("name", TRAININGS)
def test_steps_are_counted_of(name: str, meeting: Path, tmp_path: Path) -> None:
    training = TRAININGS[name]
    pytest.importorskip(training.needs)
    # DeepSpeed compiles one: a minute
    built = os.environ.get("TORCH_EXTENSIONS_DIR", str(tmp_path / "extensions"))
    more = {"TORCH_EXTENSIONS_DIR": built}
    if training.needs == "deepspeed":
        more |= {**ALONE, "MASTER_PORT": str(free_port())}
    script = BEGIN + training.script + END
    plain, hooked = (
        run(
            Path(sys.executable),
            script,
            {**environment(folder, level="steps"), **more, "HF_HUB_OFFLINE": "1", "TMPDIR": str(tmp_path)},
            cwd=tmp_path,
        )
        for folder in (None, meeting)
    )
    assert plain.returncode == 0, plain.stderr
    assert hooked.returncode == 0, hooked.stderr
    assert plain.stdout.splitlines()[-1] == hooked.stdout.splitlines()[-1]
    assert "trained" in plain.stdout
    (path,) = meeting.glob(f"*{step_records.ENDING}")
    assert counts(path.read_bytes()) == training.steps
    assert unseen.failures(meeting) == []
