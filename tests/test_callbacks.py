"""Callbacks hand over what their framework logs; a stub with its names stands in where it is not installed."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.test_gputel_log import rows

TRANSFORMERS = """
class TrainerCallback: pass
"""
LIGHTNING = """
class Logger: pass
"""
KERAS = """
class Callback: pass
"""
ACCELERATE = """
class GeneralTracker:
    def __init__(self, _blank=False): pass
def on_main_process(function): return function
"""
STUBS = {
    "transformers/__init__.py": TRANSFORMERS,
    "lightning/pytorch/loggers/logger.py": LIGHTNING,
    "lightning/pytorch/utilities.py": "def rank_zero_only(function): return function\n",
    "keras/callbacks.py": KERAS,
    "accelerate/tracking.py": ACCELERATE,
}
HUGGING_FACE = """
from types import SimpleNamespace as Some
from gputel.callbacks import TrainerLog
log, state = TrainerLog(), Some(is_world_process_zero=True, global_step=10)
log.on_train_begin(Some(to_sanitized_dict=lambda: {"seed": 1}), state, None)
log.on_log(None, state, None, logs={"loss": 2.0, "eval_loss": 2.5, "note": "words"})
log.on_step_end(None, state, None)
log.on_log(None, Some(is_world_process_zero=False, global_step=10), None, logs={"loss": 9.0})
"""
USED: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "transformers": (
        HUGGING_FACE,
        [
            {"kind": "config", "settings": {"seed": 1}},
            {"kind": "log", "step": 10, "values": {"loss": 2.0, "eval_loss": 2.5}},
            {"kind": "step", "step": 10},
        ],
    ),
    "lightning": (
        "from gputel.callbacks import LightningLog\nlog = LightningLog()\n"
        "log.log_hyperparams({'lr': 0.1})\nlog.log_metrics({'loss': 2.0}, step=3)\n",
        [
            {"kind": "config", "settings": {"lr": 0.1}},
            {"kind": "log", "step": 3, "values": {"loss": 2.0}},
        ],
    ),
    "keras": (
        "from gputel.callbacks import KerasLog\nlog = KerasLog()\n"
        "log.on_train_batch_end(0, {'loss': 2.0})\nlog.on_epoch_end(0, {'loss': 1.9, 'val_loss': 1.5})\n",
        [
            {"kind": "log", "step": 1, "values": {"loss": 2.0}},
            {"kind": "log", "step": 1, "values": {"val/loss": 1.5}},
        ],
    ),
    "accelerate": (
        "from gputel.callbacks import AccelerateLog\nlog = AccelerateLog('run')\n"
        "log.store_init_configuration({'lr': 0.1})\nlog.log({'loss': 2.0}, step=3)\n",
        [
            {"kind": "config", "settings": {"lr": 0.1}},
            {"kind": "log", "step": 3, "values": {"loss": 2.0}},
        ],
    ),
}


@pytest.mark.parametrize("framework", USED)
def test_callback_hands_over_what_is_logged(framework: str, tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    for name, text in STUBS.items():
        path = tmp_path / "stubs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    script, expected = USED[framework]
    head = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'stubs')!r})\n" if not find_spec(framework) else ""
    )
    answer = subprocess.run(
        [sys.executable, "-c", head + script],
        env={"GPUTEL_INSIDE_AT": f"off:{tmp_path / 'memory'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    said = [{name: value for name, value in row.items() if name != "ns"} for row in rows(tmp_path)]
    assert said == expected


def test_asking_for_one_callback_imports_no_other_framework() -> None:
    program = "import sys, gputel.callbacks; print({'transformers', 'keras', 'torch'} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "set()\n"
