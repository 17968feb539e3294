"""Callbacks of frameworks that hand what they log to `gputel.log`; each imports its framework when it is asked for.

`from gputel.callbacks import TrainerLog`: what the framework logs anyway arrives with its step, unrounded. None of
them does anything in a training that is not recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from gputel import gputel_log


def numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are numbers, or tensors of one; texts and pictures go elsewhere."""
    return {name: value for name, value in values.items() if not isinstance(value, str) and _is_one(value)}


def _is_one(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) or getattr(value, "size", None) == 1 or _elements(value) == 1


def _elements(value: Any) -> int:
    count = getattr(value, "numel", None)
    return int(count()) if callable(count) else 0


def _trainer_log() -> type:
    """For Hugging Face: `Trainer(..., callbacks=[TrainerLog()])`."""
    from transformers import TrainerCallback

    class TrainerLog(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.is_world_process_zero:
                gputel_log.config(args.to_sanitized_dict())

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if state.is_world_process_zero and logs:
                gputel_log.log(numbers(logs), step=state.global_step)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.is_world_process_zero:
                gputel_log.step(state.global_step)

    return TrainerLog


def _lightning_log() -> type:
    """For Lightning: `Trainer(logger=LightningLog())`, also beside other loggers in a list."""
    try:
        from lightning.pytorch.loggers.logger import Logger
        from lightning.pytorch.utilities import rank_zero_only
    except ImportError:
        from pytorch_lightning.loggers.logger import Logger
        from pytorch_lightning.utilities import rank_zero_only

    class LightningLog(Logger):
        name, version = "gputel", "0"

        @rank_zero_only
        def log_metrics(self, metrics: Any, step: int | None = None) -> None:
            gputel_log.log(numbers(metrics), step=step)

        @rank_zero_only
        def log_hyperparams(self, params: Any, *_: Any, **__: Any) -> None:
            gputel_log.config(params if isinstance(params, Mapping) else vars(params))

    return LightningLog


def _keras_log() -> type:
    """For Keras: `model.fit(..., callbacks=[KerasLog()])`; a step is a batch."""
    from keras.callbacks import Callback

    class KerasLog(Callback):
        _done = 0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self._done += 1
            gputel_log.log(numbers(logs or {}), step=self._done)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            found = {
                name[4:]: value for name, value in numbers(logs or {}).items() if name.startswith("val_")
            }
            gputel_log.log({f"val/{name}": value for name, value in found.items()}, step=self._done)

    return KerasLog


def _accelerate_log() -> type:
    """For Accelerate: `Accelerator(log_with=AccelerateLog("run"))`."""
    from accelerate.tracking import GeneralTracker, on_main_process

    class AccelerateLog(GeneralTracker):
        name, requires_logging_directory, main_process_only = "gputel", False, True

        def __init__(self, run_name: str = "gputel", **_: Any) -> None:
            super().__init__()
            self.run_name = run_name

        @property
        def tracker(self) -> Any:
            return gputel_log

        @on_main_process
        def store_init_configuration(self, values: Any) -> None:
            gputel_log.config(values)

        @on_main_process
        def log(self, values: Any, step: int | None = None, **_: Any) -> None:
            gputel_log.log(numbers(values), step=step)

    return AccelerateLog


CALLBACKS = {
    "TrainerLog": _trainer_log,
    "LightningLog": _lightning_log,
    "KerasLog": _keras_log,
    "AccelerateLog": _accelerate_log,
}


@cache
def _made(name: str) -> type:
    return CALLBACKS[name]()


def __getattr__(name: str) -> type:
    if name not in CALLBACKS:
        raise AttributeError(f"module 'gputel.callbacks' has no attribute {name!r}")
    return _made(name)
