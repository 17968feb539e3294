"""One small store of each kind that gputel reads, as its files' names and bytes, for the fuzzer to damage."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

Files = dict[str, bytes]
STEPS = 100


@cache
def composed_stores(home: Path) -> list[Files]:
    """Stores by the public grammar of each tool, as the tests compose them; the first file has the values."""
    return [
        *_event_files(),
        _wandb(),
        {"trainer_state.json": _trainer_state(STEPS), "checkpoint-50/trainer_state.json": _trainer_state(50)},
        *_tables(),
        *_learning(),
        *_json_lines(),
        _dvclive(),
        _mlruns(),
        *_databases(home),
    ]


def _event_files() -> list[Files]:
    """A run that was continued; parts of the data as Keras writes them; curves and settings as torch does."""
    from tests.analysis.stores import compose_events as tb

    first, resumed = tb.version() + tb.losses(range(200)), tb.session_start(150) + tb.losses(range(150, 400))
    settings = tb.event(0, [tb.tensor("_hparams_/session_start_info", 1, b"", "hparams")])
    tensors = b"".join(
        tb.event(n, [tb.tensor("epoch_loss", 1, tb.packed(4, b"\x00\x00\x80\x3f"))]) for n in range(STEPS)
    )
    return [
        {
            "tb/events.out.tfevents.1.a.1.0": first,
            "tb/events.out.tfevents.2.a.1.0": tb.version() + resumed,
        },
        {
            "keras/train/events.out.tfevents.1.a.1.0.v2": tb.version() + tensors,
            "keras/validation/events.out.tfevents.1.a.1.0.v2": tb.version() + tensors,
        },
        {
            "torch/loss_train/events.out.tfevents.2.a.1.1": tb.version() + tb.losses(range(STEPS), "loss"),
            "torch/loss_val/events.out.tfevents.2.a.1.2": tb.version() + tb.losses(range(STEPS), "loss"),
            "torch/events.out.tfevents.1.a.1.0": tb.version(),
            "torch/1700000000.25/events.out.tfevents.2.a.1.3": tb.version() + settings,
        },
    ]


def _wandb() -> Files:
    from tests.analysis.stores import compose_wandb as wb

    rows = [wb.history({"train/loss": 8 / (n + 1), "iter": 10 * n, "note": "x"}, n) for n in range(300)]
    beside = [wb.summary({"train/loss": 1}), wb.output("step 1 | loss 2.5\n"), wb.metric("train/*", "iter")]
    power = [wb.stats(1.7e9 + 15 * n, {"gpu.0.powerWatts": 500 + n, "gpu.0.temp": 60}) for n in range(20)]
    first = wb.run("a", {"lr": 0.1, "opt": {"name": "muon"}})
    data = wb.framed([first, wb.machine("NVIDIA H100"), *beside, *rows, *power, wb.ending(1)])
    return {"wandb/offline-run-1-a/run-a.wandb": data, "wandb/offline-run-1-a/files/output.log": b"step 1\n"}


def _trainer_state(steps: int) -> bytes:
    history = [{"step": n, "loss": 4.5 - n / 50, "learning_rate": 0.1} for n in range(steps)]
    evals = [{"step": n, "eval_loss": 5 - n / 50} for n in range(0, steps, 10)]
    state = {"global_step": steps, "max_steps": STEPS, "log_history": history + evals}
    return json.dumps(state, indent=1).encode()


def _tables() -> list[Files]:
    """Lightning, Keras, YOLO, Stable-Baselines3 and a notebook of Hugging Face's Trainer."""
    heads = {
        "metrics.csv": "epoch,step,train_loss,val_loss\n",
        "history.csv": "epoch,accuracy,loss,val_loss\n",
        "results.csv": "   epoch,   train/box_loss,   lr/pg0,   val/box_loss\n",
        "trainer.csv": "Step,Training Loss,Validation Loss,Accuracy\n",
        "semicolons.csv": "epoch;loss;val_loss;accuracy\n",
        "progress.csv": "time/total_timesteps,rollout/ep_rew_mean,time/fps,train/loss\n",
    }
    rows = "".join(f"{n},{n / 3:.3f},{4 - n / 50},\n" for n in range(STEPS))
    tables = {name: head + (rows.replace(",", ";") if ";" in head else rows) for name, head in heads.items()}
    beside = {"hparams.yaml": b"lr: 0.1\nmodel:\n  depth: 4\n"}
    return [{name: table.encode(), **beside} for name, table in tables.items()]


def _learning() -> list[Files]:
    """Episodes as Stable-Baselines3's Monitor writes them; a trial of Ray Tune, two files of which say the same."""
    episodes = "".join(f"{n / 3:.2f},{20 + n},{n / 10:.3f}\n" for n in range(STEPS))
    monitor = f'#{{"t_start": 1700000000.5, "env_id": "CartPole-v1"}}\nr,l,t\n{episodes}'
    rows = [
        {"training_iteration": n, "time_total_s": n / 2, "timestamp": 1_700_000_000 + n, "loss": 4 - n / 50}
        for n in range(1, STEPS)
    ]
    table = "".join(f"{','.join(map(str, row.values()))}\n" for row in rows)
    lines = "".join(f"{json.dumps({**row, 'config': {'lr': 0.1}})}\n" for row in rows)
    trial = {
        "trial/progress.csv": f"{','.join(rows[0])}\n{table}".encode(),
        "trial/result.json": lines.encode(),
    }
    return [{"monitor.csv": monitor.encode()}, {**trial, "trial/params.json": b'{"lr": 0.1}'}]


def _json_lines() -> list[Files]:
    """LLaMA-Factory's log, Stable-Baselines3's, and W&B's history as people export it."""
    rows = {
        "trainer_log.jsonl": {
            "current_steps": 10,
            "total_steps": 1000,
            "loss": 2.5,
            "lr": 1e-4,
            "epoch": 0.5,
        },
        "progress.json": {"rollout/ep_rew_mean": 11.0, "time/total_timesteps": 4096, "train/loss": 0.5},
        "history.jsonl": {"_step": 3, "_timestamp": 1.7e9, "train/loss": 2.5, "val": {"loss": 3.0}},
    }
    return [{name: b"\n".join([json.dumps(row).encode()] * STEPS)} for name, row in rows.items()]


def _dvclive() -> Files:
    rows = "".join(f"{1_700_000_000_000 + n}\t{n}\t{4 - n / 50}\n" for n in range(STEPS))
    return {
        "dvclive/plots/metrics/train/loss.tsv": f"timestamp\tstep\tloss\n{rows}".encode(),
        "dvclive/plots/metrics/eval/loss.tsv": f"timestamp\tstep\tloss\n{rows}".encode(),
        "dvclive/params.yaml": b"lr: 0.1\nmodel:\n  depth: 4\n",
        "dvclive/metrics.json": b'{"loss": 2.25, "step": 99}',
    }


def _mlruns() -> Files:
    values = "".join(f"{1_700_000_000_000 + n} {4 - n / 50} {n}\n" for n in range(STEPS)).encode()
    meta = b"run_id: a\nrun_name: run a\nlifecycle_stage: active\nstatus: 3\nstart_time: 1700000000000\n"
    run = "mlruns/0/a"
    return {
        f"{run}/metrics/loss": values,
        f"{run}/metrics/val/loss": values,
        f"{run}/meta.yaml": meta,
        f"{run}/params/lr": b"1e-3",
        "mlruns/0/meta.yaml": b"experiment_id: 0\n",
    }


def _databases(home: Path) -> list[Files]:
    from tests.analysis.stores import test_databases as composed

    made = [composed.mlflow(home / "mlflow.db"), composed.trackio(home / "trackio.db", with_ids=True)]
    return [{path.name: path.read_bytes()} for path in made]
