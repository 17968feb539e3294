"""Logs that are composed from the ways in which people print a training, with what they say: each seed is another.

A way to print a place, a loss, an evaluation, a heading and a summary is drawn for the log; then it is written as a
loop would, with one or several trainings, and lines that say nothing of a step in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

EPOCHS = (
    "Epoch {e}/{n}", "Epoch [{e}/{n}]", "Epoch: {e}", "epoch {e}", "Epoch {e:02d}", "[Epoch {e}]",
    "Epoch: [{e}/{n}]", "Ep {e}/{n}", "Epoch #{e}", "Epoch {e} of {n}", "epoch={e}", "EPOCH {e}",
    "第{e}轮", "エポック {e}/{n}", "Epoch-{e}", "=== Epoch {e}/{n} ===", "Epoch({e}/{n})",
)  # fmt: skip
BATCHES = (
    "Step [{i}/{n}]", "Batch {i}/{n}", "[{i}/{n}]", "iter {i}/{n}", "Batch: {i}/{n}", "({i}/{n})", "batch={i}/{n}",
    "it {i}/{n}", "[Batch {i}/{n}]",
)  # fmt: skip
STEPS = (
    "step {i}", "Step: {i}/{n}", "iter {i}", "Iteration {i}", "global_step={i}", "Step {i:06d}", "steps: {i}",
    "update {i}", "[step {i}]", "Step {i:>6}", "Train Step [{i}/{n}]", "itr {i}",
)  # fmt: skip
LOSSES = ("loss", "Loss", "train_loss", "Train Loss", "training loss", "Avg loss", "tr_loss", "loss_train")
SETS = ("val", "Val", "valid", "Validation", "validation", "eval", "test", "Test", "dev", "VAL")
SCORES = ("acc", "Accuracy", "F1", "auc", "mIoU", "BLEU", "precision", "dice", "rmse")
FIGURES = ("{}: {:.4f}", "{}={:.4f}", "{} = {:.4f}", "{}:{:.4f}", "{} {:.4f}")
JOINED = (", ", " | ", " - ", "; ", "\t", " || ")
PREFIXES = (
    "",
    "",
    "",
    "2025-01-02 10:{:02d}:{:02d},120 - INFO - ",
    "INFO:root:",
    "10:{:02d}:{:02d} | ",
    "[INFO] ",
)
HEADINGS = (
    "Validation:",
    "Validating...",
    "[Validation]",
    "--- Validation ---",
    "Evaluation results:",
    "==> Validation",
)
ABOVE = (
    "Namespace(batch_size=64, epochs=8, lr=0.001, seed=1)", "Using device: cuda:0", "batch size: 64",
    "num_epochs = 8", "train samples: 45000, val samples: 5000", "Loading dataset...", "Start training",
    "=== Training ===", "Optimizer: Adam (lr=0.001, betas=(0.9, 0.999))", "{'lr': 0.001, 'epochs': 8}",
    "seed=42 batch_size=64 epochs=8", "ResNet(", "Found 3 GPUs",
)  # fmt: skip
BETWEEN = (
    "Saving model to out/epoch_{e}.pt", "EarlyStopping counter: 2 out of 10", "-" * 40, "", "Learning rate: 0.001",
    "Best model saved", "Epoch {e} took {s:.2f} seconds", "=> saving checkpoint", "time elapsed: {s:.1f}s",
    "Validation loss decreased ({s:.6f} --> {s:.6f}).  Saving model ...", "*** epoch {e} done ***", "ETA: 1:12:03",
    "Saved checkpoint at step {e}00", "Epoch {e} finished", "Best so far: {s:.4f} (epoch {e})",
    "grad norm: {s:.3f}", "Memory: 12.5 GB", "lr adjusted to 0.0005", "New best model!",
    "Elapsed: 0:02:12, remaining: 0:09:30",
)  # fmt: skip
BELOW = (
    "Training complete in 12m 30s", "Done.", "Best val acc: {x:.4f}", "Total time: 123.45s", "Best epoch: 3",
    "Best validation loss: {x:.4f} at epoch 3", "Best model at epoch 3 with val acc {x:.4f}", "Finished in 3h 2m",
    "Average accuracy over folds: {x:.4f}", "Mean loss: {x:.4f}", "best_val_loss={x:.4f}, best_epoch=3",
    "Test accuracy of the best model: {x:.4f}",
)  # fmt: skip
BEGINNINGS = (
    "",
    "=" * 50,
    "Run {n}",
    "Fold {n}",
    "===== Fold {n}/3 =====",
    "Training model {n}",
    "seed: {n}",
)
LAYOUTS = ("none", "beside", "placed", "below", "below", "headed", "set first", "a line each")


@dataclass(frozen=True)
class Record:
    training: int
    step: int | None  # None: an index within the epoch
    loss: float


@dataclass(frozen=True)
class Evaluation:
    training: int
    name: str
    value: float
    above: int | None  # the step of the record above it; None where that is an index within the epoch


@dataclass
class Composed:
    """A log in the ways that were drawn for it, with its records and evaluations."""

    random: Random
    lines: list[str] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)

    def __post_init__(self) -> None:
        draw = self.random.choice
        self.unit = draw(("epoch", "epoch", "batch", "step", "step"))
        self.place = {"epoch": draw(EPOCHS), "batch": draw(BATCHES), "step": draw(STEPS)}
        self.figure, self.join, self.prefix = draw(FIGURES), draw(JOINED), draw(PREFIXES)
        self.behind_place = draw((self.join, " ", ": ", ", "))
        self.loss, self.set, self.score = draw(LOSSES), draw(SETS), draw(SCORES)
        self.name = f"{self.set}{draw('_ ')}{{}}"
        self.gives_score, self.gives_rate = draw((True, False)), draw((True, False))
        self.layout, self.heading = draw(LAYOUTS), draw(HEADINGS)
        if self.unit != "epoch" and self.layout == "beside":
            self.layout = "below"
        self.every = draw((1, 1, 2, 3))
        self.is_headed = self.unit != "step" and draw((True, False, False))
        self.first = draw((0, 1, 1))
        self.between = self.random.sample(BETWEEN, draw((0, 0, 1, 2, 3)))
        self.above = self.random.sample(ABOVE, draw((0, 1, 3)))
        self.below = self.random.sample(BELOW, draw((0, 1, 2)))
        self.tests, self.beginning = draw((True, False)), draw(BEGINNINGS)
        self._used: set[float] = set()

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def write(self) -> None:
        """Writes the trainings one after the other."""
        trainings = self.random.choice((1, 1, 1, 2, 3))
        for training in range(1, trainings + 1):
            if training > 1:
                self._print(self.beginning.format(n=training))
            for line in self.above:
                self._print(line)
            {"epoch": self._by_epoch, "batch": self._by_batch, "step": self._by_step}[self.unit](training)
            last = self.records[-1].step
            if self.tests:
                loss = self._value(0.3, 3)
                self._print(
                    self.join.join(self._figures(("Test loss", loss), ("Test acc", self._value(0.1, 0.9))))
                )
                self.evaluations.append(Evaluation(training, "test", loss, last))
            for line in self.below:
                self._print(line.format(x=self._value(0.1, 0.9)))

    def _by_epoch(self, training: int) -> None:
        for epoch in range(self.first, 8 + self.first):
            place = self.place["epoch"].format(e=epoch, n=8)
            if self.is_headed:
                self._print(place)
            record = self._record(training, epoch, "" if self.is_headed else place)
            evaluates = self.layout != "none" and (epoch - self.first + 1) % self.every == 0
            evaluation = self._evaluation(training, place, epoch) if evaluates else []
            if self.layout == "beside":
                record, evaluation = self.join.join([record, *evaluation]), []
            for line in (record, *evaluation):
                self._print(line)
            self._say_more(epoch)

    def _by_batch(self, training: int) -> None:
        for epoch in range(self.first, 4 + self.first):
            heading = self.place["epoch"].format(e=epoch, n=4)
            if self.is_headed:
                self._print(heading)
            for batch in range(self.first, 100, 20):
                place = self.place["batch"].format(i=batch, n=100)
                self._print(self._record(training, None, place if self.is_headed else f"{heading} {place}"))
            if self.layout != "none" and epoch % self.every == 0:
                for line in self._evaluation(training, heading, None):
                    self._print(line)
            self._say_more(epoch)

    def _by_step(self, training: int) -> None:
        for at in range(24):
            step = 10 * (at + self.first)
            place = self.place["step"].format(i=step, n=240)
            self._print(self._record(training, step, place))
            if self.layout != "none" and at % (4 * self.every) == 3:
                for line in self._evaluation(training, place, step):
                    self._print(line)
            if at % 8 == 7:
                self._say_more(at // 8)

    def _record(self, training: int, step: int | None, place: str) -> str:
        loss = self._value(2, 4)
        self.records.append(Record(training, step, loss))
        figures = self._figures((self.loss, loss))
        figures += [self.figure.replace("{:.4f}", "{}").format("lr", "0.001")] if self.gives_rate else []
        return (place + self.behind_place if place else "") + self.join.join(figures)

    def _evaluation(self, training: int, place: str, step: int | None) -> list[str]:
        """The lines of an evaluation; a figure that stands beside the record's is no line of its own."""
        loss, score = self._value(0.3, 3), self._value(0.1, 0.9)
        self.evaluations.append(Evaluation(training, "val", loss, step))
        named = self._figures((self.name.format("loss"), loss), (self.name.format(self.score), score))
        bare = self._figures(("loss", loss), (self.score, score))
        if not self.gives_score:
            named, bare = named[:1], bare[:1]
        ways: dict[str, Callable[[], list[str]]] = {
            "placed": lambda: [place + self.behind_place + self.join.join(named)],
            "headed": lambda: [self.heading, self.join.join(named)],
            "set first": lambda: [f"[{self.set}] {self.join.join(bare)}"],
            "below": lambda: [self.join.join(named)],
        }
        return ways.get(self.layout, lambda: named)()

    def _figures(self, *named: tuple[str, float]) -> list[str]:
        return [self.figure.format(name, value) for name, value in named]

    def _say_more(self, epoch: int) -> None:
        for line in self.between:
            if self.random.random() < 0.7:
                self._print(line.format(e=epoch, s=self.random.uniform(3, 99)))

    def _print(self, line: str) -> None:
        self.lines.append(self.prefix.format(len(self.lines) // 60, len(self.lines) % 60) + line)

    def _value(self, least: float, most: float) -> float:
        """A figure that no other one of the log has, with a digit in each place."""
        while (value := round(self.random.uniform(least, most), 4)) in self._used or not round(
            value * 1e4
        ) % 10:
            pass
        self._used.add(value)
        return value


def composed(seed: int) -> Composed:
    log = Composed(Random(seed))
    log.write()
    return log
