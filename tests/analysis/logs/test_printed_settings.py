"""Settings that a log prints before its first record are the run's configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import gputel
from gputel.analysis.logs.formats import interpreted
from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]

RECORDS = "".join(f"step {step} loss {9 - step / 100:.4f} lr 0.001\n" for step in range(10, 60, 10))
PYTHON = "python -u train.py --learning-rate 0.1 --batch-size=32 --amp --name 'my run'\n"
FORMS = {
    "Namespace(learning_rate=0.1, batch_size=32, betas=(0.9, 0.95), amp=True, resume=None, name='my run')\n": {
        "learning_rate": 0.1,
        "batch_size": 32.0,
        "betas": "(0.9, 0.95)",
        "amp": "true",
        "name": "my run",
    },
    "2026-03-01 10:00:00 - INFO - TrainConfig(optim=OptimConfig(lr=0.1, name='adam'), seed=7, steps=100)\n": {
        "optim.lr": 0.1,
        "optim.name": "adam",
        "seed": 7.0,
        "steps": 100.0,
    },
    "TrainingArguments(\n_n_gpu=1,\nadam_beta1=0.9,\nlr_scheduler_type=SchedulerType.COSINE,\nseed=42,\n)\n": {
        "n_gpu": 1.0,
        "adam_beta1": 0.9,
        "lr_scheduler_type": "SchedulerType.COSINE",
        "seed": 42.0,
    },
    "{'lr': 0.1, 'model': {'width': 512, 'dropout': 0.1}, 'tags': ['a', 'b']}\n": {
        "lr": 0.1,
        "model.width": 512.0,
        "model.dropout": 0.1,
        "tags": "['a', 'b']",
    },
    'Model config TinyConfig {\n  "hidden_size": 512,\n  "eps": 1e-05,\n  "tie": true,\n  "head": null\n}\n': {
        "hidden_size": 512.0,
        "eps": 1e-05,
        "tie": "true",
    },
    '{"event": "start", "config": {"lr": 0.1, "batch_size": 32}}\n': {
        "event": "start",
        "lr": 0.1,
        "batch_size": 32.0,
    },
    "Hyperparameters\n---------------\nLearning rate: 0.1\nBatch size: 1,024\nData dir: /data/books\n\n": {
        "Learning_rate": 0.1,
        "Batch_size": 1024.0,
        "Data_dir": "/data/books",
    },
    "model:\n  width: 512\n  act: gelu\noptimizer:\n  lr: 0.1  # peak\n  betas:\n  - 0.9\nseed: 7\n": {
        "model.width": 512.0,
        "model.act": "gelu",
        "optimizer.lr": 0.1,
        "seed": 7.0,
    },
    "  adam_beta1 ................ 0.9\n  lr ........................ 0.1\n  tie_weights ............... True\n": {
        "adam_beta1": 0.9,
        "lr": 0.1,
        "tie_weights": "true",
    },
    "   batch_size: 4            \t[default: 1]\n   lr: 0.1\n   phase: train\n": {
        "batch_size": 4.0,
        "lr": 0.1,
        "phase": "train",
    },
    "| name       | value |\n|------------|-------|\n| lr         | 0.1   |\n| batch_size | 32    |\n": {
        "name": "value",
        "lr": 0.1,
        "batch_size": 32.0,
    },
    "lr          0.1\nbatch_size  32\nwarmup      none\nschedule    cosine\n": {
        "lr": 0.1,
        "batch_size": 32.0,
        "schedule": "cosine",
    },
    "settings: lr=0.1, batch_size=32, schedule=cosine\n": {
        "lr": 0.1,
        "batch_size": 32.0,
        "schedule": "cosine",
    },
    f"+ {PYTHON}": {"learning_rate": 0.1, "batch_size": 32.0, "amp": "true", "name": "my run"},
    "torchrun --standalone \\\n  train.py \\\n  --lr 0.1 \\\n  --steps 100\n": {"lr": 0.1, "steps": 100.0},
    "python -m tiny.train optimizer.lr=0.1 +data.path=/books\n": {"optimizer.lr": 0.1, "data.path": "/books"},
    "['train.py', '--lr', '0.1', '--epochs', '3']\n": {"lr": 0.1, "epochs": 3.0},
}
NONE = {
    "printed model": "Net(\n  (fc1): Linear(in_features=8, out_features=4, bias=True)\n"
    "  (bn): BatchNorm2d(4, eps=1e-05, momentum=0.1, affine=True)\n  (drop): Dropout(p=0.1, inplace=False)\n)\n",
    "usage": "usage: train.py [-h] [--lr LR] [--batch-size BATCH_SIZE] [--epochs EPOCHS]\n",
    "advice": "Try `python train.py --lr 0.1 --epochs 3` for a first run.\n",
    "sizes of data": "train samples: 50000\nval samples: 10000\nclasses seen: 10\n",
    "code": "import torch\nlr = 0.1\nbatch_size = 32\nepochs = 3\n",
    "template": "epochs: {epochs}\nlr: {lr}\nseed: %(seed)s\n",
    "prose": "lr: the step size that each update is scaled by, as it falls\nseed: where the random numbers begin\n",
}


STAMPED = "".join(
    f"[12/25 14:22:26] {line}\n"
    for line in ("OPTIMIZER :", "    lr : 0.1", "    name : Momentum", "MODEL :", "    name : ResNet18")
)
FORMS[STAMPED] = {"OPTIMIZER.lr": 0.1, "OPTIMIZER.name": "Momentum", "MODEL.name": "ResNet18"}


@pytest.mark.parametrize("printed", FORMS)
def test_printed_settings_are_the_configuration(printed: str, read: Read) -> None:
    log = read(f"loading data\n{printed}starting\n{RECORDS}")
    assert log.config == FORMS[printed]
    assert log.records.height == 5


@pytest.mark.parametrize("what", NONE)
def test_other_lines_are_no_configuration(what: str, read: Read) -> None:
    assert read(f"{NONE[what]}{RECORDS}").config == {}


def test_settings_behind_the_first_record_are_left_out(read: Read) -> None:
    assert read(f"{RECORDS}Namespace(lr=0.1, batch_size=32)\n").config == {}


def test_settings_of_a_known_format_are_read(read: Read) -> None:
    steps = "".join(f"iter {n}: loss {4 - n / 10:.4f}, time 40.00ms, mfu 20.00%\n" for n in range(5))
    log = read(f"Overriding: learning_rate = 0.1\nConfig(lr=0.1, batch_size=12)\n{steps}")
    assert (log.format, log.config) == ("nanogpt", {"lr": 0.1, "batch_size": 12.0})


def test_runs_are_compared_by_the_settings_that_they_print(tmp_path: Path) -> None:
    for lr in (0.1, 0.2):
        (tmp_path / f"lr{lr}.log").write_text(f"Namespace(lr={lr}, batch_size=32)\n{RECORDS}")
    settings = gputel.compare(sorted(tmp_path.iterdir())).settings
    assert settings.select("setting", "value").rows() == [("lr", "0.1"), ("lr", "0.2")]


def test_secrets_are_masked(read: Read) -> None:
    log = read(f"Namespace(lr=0.1, api_key='8fj3-Kd92-ss', wandb_password='hunter2')\n{RECORDS}")
    assert log.config == {"lr": 0.1, "api_key": "***", "wandb_password": "***"}


def test_name_with_a_meaning_of_its_own_is_kept_apart(read: Read) -> None:
    """Another program's `depth` may be that of a tree, and its `seq` a file: nothing is computed from them."""
    names = sorted(interpreted())
    assert {"batch_tokens", "device_batch", "seq", "total_steps", "gpus", "mode", "optimizer"} <= set(names)
    printed = ", ".join(
        f"{name}=3" for name in names if name not in ("gpus", "nodes", "vocab_size", "world_size")
    )
    log = read(f"Namespace(lr=0.1, {printed})\n{RECORDS}")
    assert [name for name in names if name in log.config] == []
    assert log.config["depth_"] == 3.0


def test_setting_that_a_banner_gives_is_not_repeated(read: Read) -> None:
    log = read(f"Namespace(lr=0.1, seed=1, num_gpus=8)\nnum_gpus: 8\nworld_size: 8\nlr: 0.1\n{RECORDS}")
    assert log.config == {"gpus": 8.0, "world_size": 8.0, "lr": 0.1, "seed": 1.0, "num_gpus": 8.0}


def test_count_that_cannot_be_is_no_fact(read: Read) -> None:
    printed = "world_size: -1\ninf GPU available\nmodel parameters: 2.710175\n"
    assert read(f"{printed}{RECORDS}").config == {}


def test_name_with_two_values_has_none(read: Read) -> None:
    ranks = "".join(f"[rank{rank}]: Namespace(lr=0.1, seed=7, local_rank={rank})\n" for rank in range(4))
    assert read(f"{ranks}{RECORDS}").config == {"lr": 0.1, "seed": 7.0}


def test_calls_go_before_the_command_line(read: Read) -> None:
    log = read(f"{PYTHON}Namespace(learning_rate=0.05, batch_size=32, seed=1)\n{RECORDS}")
    assert log.config == {
        "learning_rate": 0.05,
        "batch_size": 32.0,
        "seed": 1.0,
        "amp": "true",
        "name": "my run",
    }


@pytest.mark.parametrize(
    "text", ["(" * 50_000, "{'a': " * 20_000, "lr=1 " * 50_000, "a: b\n" * 50_000, "--x " * 50_000]
)
def test_hostile_preamble_is_read_in_time(text: str, read: Read) -> None:
    assert read(f"{text}\nlr: batch\n{RECORDS}").records.height == 5
