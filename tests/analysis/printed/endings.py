# ruff: noqa: E501 (a template is a line of a log and reads as one)
"""How logs end: crashes, cancellations, limits, and trainings that come to their end."""

from __future__ import annotations

from tests.analysis.printed import Printed, falling, validated

f, v = falling, validated
LOGS: list[Printed] = []


def hfl(i: int) -> str:
    return f"{{'loss': {f(i)}, 'grad_norm': 1.2, 'learning_rate': {1e-4:.4g}, 'epoch': {i / 50:.2f}}}\n"


def add(
    name: str,
    text: str,
    records: int,
    first: tuple[int | None, float | None],
    last: tuple[int | None, float | None],
    evals: dict[str, tuple[int, float | None]] | None = None,
    status: str = "unknown",
    cause: str | None = None,
    events: dict[str, int] | None = None,
) -> None:
    LOGS.append(
        Printed(
            name,
            "what runtimes, schedulers and shells print",
            text,
            records,
            first,
            last,
            evals or {},
            events=events or {},
            status=status,
            cause=cause,
        )
    )


add(
    "oom-bar",
    "".join(f"\r {i}%|█  | {i}/1000 [00:10<10:00,  1.2it/s, loss={f(i)}]" for i in range(1, 40))
    + 'Traceback (most recent call last):\n  File "train.py", line 12, in <module>\n    main()\n  File "train.py", line 8, in main\n    loss.backward()\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.2 GiB is free.\n',
    39,
    (1, f(1)),
    (39, f(39)),
    status="failed",
    cause="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.2 GiB is free.",
    events={"oom": 1, "traceback": 1},
)
add(
    "slurm-cancel",
    "".join(f"step {i} loss {f(i)}\n" for i in range(30))
    + "slurmstepd: error: *** JOB 123456 ON node001 CANCELLED AT 2024-05-01T10:00:00 DUE TO TIME LIMIT ***\n",
    30,
    (0, f(0)),
    (29, f(29)),
    status="interrupted",
    cause="slurmstepd: error: *** JOB 123456 ON node001 CANCELLED AT 2024-05-01T10:00:00 DUE TO TIME LIMIT ***",
    events={"stop": 1},
)
add(
    "ctrl-c",
    "".join(f"step {i} loss {f(i)}\n" for i in range(30))
    + '^CTraceback (most recent call last):\n  File "train.py", line 12, in <module>\n    main()\nKeyboardInterrupt\n',
    30,
    (0, f(0)),
    (29, f(29)),
    status="interrupted",
    cause="KeyboardInterrupt",
    events={"stop": 1, "traceback": 1},
)
add(
    "nccl-timeout",
    "".join(f"[rank0]: step {i} loss {f(i)}\n" for i in range(30))
    + "".join(
        f"[rank{r}]:[E ProcessGroupNCCL.cpp:616] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1234, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
        for r in range(4)
    )
    + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n",
    30,
    (0, f(0)),
    (29, f(29)),
    status="failed",
    cause="[rank0]:[E ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1234, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.",
)
add(
    "hf-resume",
    "".join(hfl(i) for i in range(1, 20))
    + 'Saving model checkpoint to out/checkpoint-19\nTraceback (most recent call last):\n  File "run.py", line 3, in <module>\nConnectionError: (MaxRetryError)\nContinuing training from checkpoint, will skip to saved global_step\n  Continuing training from epoch 0\n  Continuing training from global step 19\n'
    + "".join(hfl(i) for i in range(20, 51))
    + "{'train_runtime': 251.4, 'train_loss': 2.87, 'epoch': 1.0}\n",
    50,
    (None, f(1)),
    (None, f(50)),
    status="completed",
)
add(
    "early-stop",
    "".join(f"Epoch {e}: train_loss={f(e)} val_loss={v(e)}\n" for e in range(1, 20))
    + "Early stopping at epoch 19\n",
    19,
    (1, f(1)),
    (19, f(19)),
    {"val_loss": (19, min(v(e) for e in range(1, 20)))},
    events={"stop": 1},
)
add(
    "segv",
    "".join(f"step {i} loss {f(i)}\n" for i in range(30)) + "Segmentation fault (core dumped)\n",
    30,
    (0, f(0)),
    (29, f(29)),
    status="failed",
    cause="Segmentation fault (core dumped)",
)
add(
    "killed",
    "".join(f"step {i} loss {f(i)}\n" for i in range(30))
    + "run.sh: line 12:  4121 Killed                  python train.py\n",
    30,
    (0, f(0)),
    (29, f(29)),
    status="failed",
    cause="run.sh: line 12:  4121 Killed                  python train.py",
)
add(
    "assert",
    "".join(f"step {i} loss {f(i)}\n" for i in range(30))
    + 'Traceback (most recent call last):\n  File "train.py", line 12, in <module>\n    assert loss.isfinite()\nAssertionError: loss is not finite\n',
    30,
    (0, f(0)),
    (29, f(29)),
    status="failed",
    cause="AssertionError: loss is not finite",
)
add(
    "srun",
    "".join(f"{r}: step {i} loss {f(i) + r / 100:.4f}\n" for i in range(30) for r in range(2))
    + "srun: error: node001: task 0: Exited with exit code 1\n",
    60,
    (0, f(0)),
    (29, round(f(29) + 0.01, 4)),
    status="failed",
    cause="srun: error: node001: task 0: Exited with exit code 1",
)
add(
    "done",
    "".join(f"step {i} loss {f(i)}\n" for i in range(30))
    + "Finished training.\nSaved final model to out/model.pt\n",
    30,
    (0, f(0)),
    (29, f(29)),
    status="completed",
    events={"checkpoint": 1},
)
