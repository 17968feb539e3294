"""The assembled parts of a training, and where it stands: what the loop and the border between steps work on."""

import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gputel.trainer.checkpoint import Store
from gputel.trainer.data import Corpus
from gputel.trainer.errors import TrainerError
from gputel.trainer.evaluate import Validation
from gputel.trainer.hellaswag import MultipleChoice
from gputel.trainer.model import Model
from gputel.trainer.optim import Optimizer
from gputel.trainer.options import Progress, TrainingPlan
from gputel.trainer.ranks import World
from gputel.trainer.rows import Mixture, Source
from gputel.trainer.say import Voice


@dataclass
class TrainingRun:
    """`engine` is the model as it trains, behind DDP where there are several ranks; `saved` the checkpoint from
    which the run goes on, if it is its own; `zero` when it would have begun, had it never been interrupted."""

    plan: TrainingPlan
    where: World
    folder: Path
    voice: Voice
    corpus: Corpus
    rows: Source | Mixture
    validation: Validation | None
    asked: list[MultipleChoice]
    model: Model
    engine: nn.Module
    optimizer: Optimizer
    store: Store
    progress: Progress = field(default_factory=Progress)
    saved: Path | None = None
    zero: float = field(default_factory=time.monotonic)
    known_epoch: int = 0

    def epoch(self) -> int:
        """That of the next row; where it cannot be read, the last that was known."""
        with suppress(TrainerError):
            self.known_epoch = self.rows.epoch(self.progress.position)
        return self.known_epoch

    def wall_s(self) -> float:
        return time.monotonic() - self.zero

    def about(self) -> dict[str, Any]:
        """What a checkpoint says of the run beside the tensors, and metrics.jsonl at the start."""
        return {
            "progress": asdict(self.progress),
            "shape": asdict(self.plan.shape),
            "options": asdict(self.plan.options),
            "data": self.corpus.fingerprint,
            "tokenizer": self.corpus.tokenizer.recipe if self.corpus.tokenizer else None,
            "ranks": self.where.size,
            "torch": torch.__version__,
        }
