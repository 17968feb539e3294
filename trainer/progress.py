"""How far a run is: the few numbers that, with weights and optimizer, make a run go on as if never interrupted."""

from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass
class Progress:
    """`step` counts finished steps, `position` the rows read by all ranks together; times are over all attempts."""

    step: int = 0
    position: int = 0
    tokens: int = 0
    train_s: float = 0.0
    wall_s: float = 0.0
    skips: int = 0
    skips_in_a_row: int = 0
    best_loss: float | None = None
    best_step: int | None = None
    stale_evaluations: int = 0

    def saved(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def restored(cls, saved: dict[str, Any]) -> "Progress":
        known = {entry.name for entry in fields(cls)}
        return cls(**{name: value for name, value in saved.items() if name in known})
