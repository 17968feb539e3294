# ruff: noqa: E501 (a template is a line of a log and reads as one)
"""Scripts that people write themselves: forms that tutorials, courses and papers have made common."""

from __future__ import annotations

from typing import Any

from tests.analysis.printed import Printed, falling, validated

f, v = falling, validated
EPOCHS = range(1, 6)
LOGS: list[Printed] = []


def add(
    name: str,
    text: str,
    records: int,
    first: tuple[int | None, float | None],
    last: tuple[int | None, float | None],
    evaluations: int = 0,
    least: float | None = None,
    **more: Any,
) -> None:
    evals = {"val_loss": (evaluations, least)}
    LOGS.append(
        Printed(name, "print statements that many scripts share", text, records, first, last, evals, **more)
    )


add(
    "bentrevett",
    "The model has 2,592,105 trainable parameters\n"
    + "".join(
        f"Epoch: {e:02} | Epoch Time: 0m {29 + e}s\n\tTrain Loss: {f(e):.3f} | Train Acc: {59 + e}.10%\n\t Val. Loss: {v(e):.3f} |  Val. Acc: {60 + e}.20%\n"
        for e in EPOCHS
    )
    + "Test Loss: 0.334 | Test Acc: 85.28%\n",
    5,
    (1, round(f(1), 3)),
    (5, round(f(5), 3)),
    6,
    0.334,
)
add(
    "pt-quickstart",
    "Using cuda device\nNeuralNetwork(\n  (flatten): Flatten(start_dim=1, end_dim=-1)\n)\n"
    + "".join(
        f"Epoch {e}\n-------------------------------\n"
        + "".join(f"loss: {f(10 * e + i):>7f}  [{64 + 6400 * i:>5d}/60000]\n" for i in range(10))
        + f"Test Error: \n Accuracy: {40 + e}.1%, Avg loss: {v(10 * e):>8f} \n\n"
        for e in EPOCHS
    )
    + "Done!\n",
    50,
    (1, f(10)),
    (5, f(59)),
    5,
    min(v(10 * e) for e in EPOCHS),
)
add(
    "yunjey",
    "".join(
        "".join(f"Epoch [{e}/5], Step [{100 * i}/600], Loss: {f(6 * e + i)}\n" for i in range(1, 7))
        for e in EPOCHS
    )
    + "Accuracy of the network on the 10000 test images: 97.5 %\n",
    30,
    (100, f(7)),
    (3000, f(36)),
    status="completed",
)
add(
    "erik-gan",
    "".join(
        "".join(
            f"[Epoch {e}/5] [Batch {100 * i}/938] [D loss: {f(6 * e + i)}] [G loss: {v(6 * e + i)}]\n"
            for i in range(9)
        )
        for e in range(5)
    ),
    45,
    (0, None),
    (4 * 938 + 800, None),
)
add(
    "comma",
    "".join(
        "".join(f"epoch: {e}, batch: {100 * i}, loss: {f(6 * e + i)}, acc: 0.{500 + i}\n" for i in range(6))
        for e in EPOCHS
    ),
    30,
    (0, f(6)),
    (500, f(35)),
)
add(
    "dash-info",
    "".join(
        f"2024-05-01 10:00:{i:02d} - INFO - Step {100 * i}/1000 - Loss: {f(i)} - LR: {3e-4 * i / 10:.2e} - Tokens/s: {12345 + i} - ETA: 1:23:{i:02d}\n"
        for i in range(1, 11)
    ),
    10,
    (100, f(1)),
    (1000, f(10)),
    status="completed",
)
add(
    "tf-slim",
    "INFO:tensorflow:Starting Session.\n"
    + "".join(
        f"INFO:tensorflow:global step {100 * i}: loss = {f(i)} (0.{100 + i} sec/step)\n" for i in range(1, 31)
    ),
    30,
    (100, f(1)),
    (3000, f(30)),
)
add(
    "paddlenlp-old",
    "".join(
        f"global step {100 * i}, epoch: 1, batch: {100 * i}, loss: {f(i)}, speed: 1.2{i:02d} step/s, learning rate: 0.0001\n"
        for i in range(1, 31)
    ),
    30,
    (100, f(1)),
    (3000, f(30)),
)
add(
    "mixed-each",
    "".join(
        f"Step {100 * i} | Train Loss {f(i)} | Val Loss {v(i)} | Time {12 + i}.3s\n" for i in range(1, 31)
    ),
    30,
    (100, f(1)),
    (3000, f(30)),
    30,
    min(v(i) for i in range(1, 31)),
)
add(
    "dict-epoch",
    "".join(f"{{'epoch': {e}, 'loss': {f(e)}, 'val_loss': {v(e)}, 'lr': 0.001}}\n" for e in range(20)),
    20,
    (0, f(0)),
    (19, f(19)),
    20,
    min(v(i) for i in range(20)),
)
add(
    "lightning-csv",
    "epoch,step,train_loss,val_loss\n"
    + "".join(
        "".join(f"{e},{50 * (4 * e + i) + 49},{f(4 * e + i)},\n" for i in range(4))
        + f"{e},{50 * (4 * e + 3) + 49},,{v(4 * e)}\n"
        for e in range(5)
    ),
    20,
    (49, f(0)),
    (999, f(19)),
    5,
    min(v(4 * e) for e in range(5)),
)
add(
    "wandb-end",
    "".join(f"step {i} loss {f(i)}\n" for i in range(50))
    + "wandb: \nwandb: Run history:\nwandb: train/loss █▆▅▄▃▂▂▁▁▁\nwandb: \nwandb: Run summary:\nwandb:       step 49\nwandb: train/loss 2.37\nwandb: \nwandb: 🚀 View run x at: https://wandb.ai/a/b/runs/c\n",
    50,
    (0, f(0)),
    (49, f(49)),
)
add(
    "rich",
    "".join(
        f"[10:00:{i:02d}] INFO     step {i} | loss {f(i)} | lr 3.0e-04                      train.py:123\n           INFO     data ok                                            data.py:45\n"
        for i in range(50)
    ),
    50,
    (0, f(0)),
    (49, f(49)),
)
add(
    "loguru",
    "".join(
        f"2024-05-01 10:00:{i:02d}.123 | INFO     | __main__:train:45 - Epoch 1/10, Step {10 * i}/1000, Loss: {f(i)}, LR: 0.0001\n"
        for i in range(50)
    ),
    50,
    (0, f(0)),
    (490, f(49)),
)
add(
    "set-pipes",
    "".join(
        "".join(f"train | epoch {e} | iter {100 * i}/600 | loss {f(6 * e + i)}\n" for i in range(6))
        + f"val | epoch {e} | loss {v(e)} | acc 0.{500 + e}\n"
        for e in range(5)
    ),
    30,
    (0, f(0)),
    (4 * 600 + 500, f(29)),
    5,
    min(v(e) for e in range(5)),
)
add(
    "set-brackets",
    "".join(
        "".join(f"[train] epoch={e} step={6 * e + i} loss={f(6 * e + i)}\n" for i in range(6))
        + f"[val] epoch={e} loss={v(e)}\n"
        for e in range(5)
    ),
    30,
    (0, f(0)),
    (29, f(29)),
    5,
    min(v(e) for e in range(5)),
)
add(
    "best",
    "".join(f"Iter: {100 * i} Train loss: {f(i)} Val loss: {v(i)} Best: {v(i)}\n" for i in range(30)),
    30,
    (0, f(0)),
    (2900, f(29)),
    30,
    min(v(i) for i in range(30)),
)
add(
    "micrograd",
    "".join(f"step {i} loss {f(i)}, accuracy {50 + i}.0%\n" for i in range(40)),
    40,
    (0, f(0)),
    (39, f(39)),
)
add(
    "makemore",
    "".join(
        f"step {10 * i} | loss {f(i)} | step time {12 + i % 3}.34ms\n"
        + (
            f"step {10 * i} train loss: {f(i)} test loss: {v(i)}\ntest loss {v(i)} is the best so far, saving model to out/model.pt\n"
            if i % 10 == 0
            else ""
        )
        for i in range(40)
    ),
    40,
    (0, f(0)),
    (390, f(39)),
    4,
    v(30),
)
add(
    "tensor",
    "".join(
        f"epoch {e} loss: tensor({f(e)}, device='cuda:0', grad_fn=<NllLossBackward0>)\n" for e in range(40)
    ),
    40,
    (0, f(0)),
    (39, f(39)),
)
add(
    "array",
    "".join(
        f"step {e}: {{'loss': Array({f(e)}, dtype=float32), 'grad_norm': Array(1.{e}, dtype=float32)}}\n"
        for e in range(40)
    ),
    40,
    (0, f(0)),
    (39, f(39)),
)
add(
    "np64",
    "".join(f"step {e}: loss=np.float64({f(e)}) lr=np.float32(0.001)\n" for e in range(40)),
    40,
    (0, f(0)),
    (39, f(39)),
)
add(
    "loss-at",
    "".join(f"Loss at iteration {100 * i}: {f(i)}\n" for i in range(40)),
    40,
    (0, f(0)),
    (3900, f(39)),
)
add(
    "nameless-pair",
    "".join(f"[{100 * i}/4000] loss={f(i)} lr=1e-3 time=0.12s\n" for i in range(40)),
    40,
    (0, f(0)),
    (3900, f(39)),
)
add(
    "of",
    "".join(f"step {100 * i} of 4000 ({i * 2.5:.1f}%): loss {f(i)}\n" for i in range(40)),
    40,
    (0, f(0)),
    (3900, f(39)),
)
add(
    "thousands",
    "".join(f"step {100 * i:,} | tokens {52428800 * i:,} | loss {f(i)}\n" for i in range(40)),
    40,
    (0, f(0)),
    (3900, f(39)),
)
add(
    "ranks",
    "".join(
        "".join(f"[Rank {r}] step {10 * i} loss {f(i) + r / 100:.4f}\n" for r in range(4)) for i in range(20)
    ),
    80,
    (0, f(0)),
    (190, round(f(19) + 0.03, 4)),
)
add(
    "resume",
    "".join(f"step {10 * i} loss {f(i)}\n" for i in range(20))
    + 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\nRuntimeError: CUDA error: an illegal memory access was encountered\nResuming from checkpoint at step 150\n'
    + "".join(f"step {10 * i} loss {v(i)}\n" for i in range(15, 40))
    + "Training complete!\n",
    45,
    (0, f(0)),
    (390, v(39)),
    attempts=2,
    status="completed",
)
add(
    "epoch-avg",
    "".join(
        "".join(f"Epoch {e} step {100 * i}: loss {f(6 * e + i)}\n" for i in range(6))
        + f"Epoch {e} finished in 123.4s, average loss {f(6 * e)}, validation loss {v(e)}, validation accuracy 0.{500 + e}\n"
        for e in range(5)
    ),
    30,
    (0, f(0)),
    (500, f(29)),
    5,
    min(v(e) for e in range(5)),
)
add(
    "multi-train-val",
    "".join(
        f"Epoch {e}/20\ntrain Loss: {f(e)} Acc: 0.{500 + e}\nval Loss: {v(e)} Acc: 0.{480 + e}\n\n"
        for e in range(20)
    )
    + "Training complete in 1m 23s\nBest val Acc: 0.5\n",
    20,
    (0, f(0)),
    (19, f(19)),
    20,
    min(v(e) for e in range(20)),
    status="completed",
)
add(
    "imagenet-custom",
    "".join(
        "".join(
            f"Epoch: [{e}][{10 * i}/100]\tTime 0.12 (0.13)\tLoss {f(10 * e + i)} ({f(10 * e + i) + 0.1:.4f})\tPrec@1 {i}.5 ({i}.4)\n"
            for i in range(10)
        )
        + f" * Prec@1 {50 + e}.123 Prec@5 {80 + e}.123\n"
        for e in range(5)
    ),
    50,
    (0, f(0)),
    (490, f(49)),
)
add(
    "cifar-bar",
    "".join(
        f"\nEpoch: {e}\n"
        + "".join(
            f" [{'=' * (i // 2)}>{'.' * (50 - i // 2)}]  Step: 52ms | Tot: 5s{i}ms | Loss: {f(e) + (100 - i) / 1000:.3f} | Acc: {30 + i / 10:.3f}% ({1000 + i}/{12800})                 {i}/100 \r"
            for i in range(1, 101)
        )
        + "\n"
        for e in range(5)
    ),
    5,
    (0, round(f(0), 3)),
    (4, round(f(4), 3)),
)
add(
    "train-val-line",
    "".join(
        f"Epoch {e}: train: loss 0.{900 - e} acc 0.{500 + e} | val: loss 0.{950 - e} acc 0.{490 + e} | lr 0.001 | 12.3s\n"
        for e in range(20)
    ),
    20,
    (0, 0.9),
    (19, 0.881),
    20,
    0.931,
)
add(
    "cyclegan",
    "".join(
        "".join(
            f"(epoch: {e}, iters: {100 * i}, time: 0.12, data: 0.1) D_A: {f(6 * e + i)} G_A: {v(6 * e + i)} cycle_A: 1.2\n"
            for i in range(1, 7)
        )
        + f"End of epoch {e} / 5 \t Time Taken: 123 sec\n"
        for e in EPOCHS
    ),
    30,
    (100, None),
    (600, None),
)
add(
    "esrgan",
    "".join(
        f"22-05-01 10:00:{i:02d}.123 - INFO: <epoch:{i // 10:3d}, iter:{100 * (i + 1):8,d}, lr:(2.000e-04,)> l_pix: {f(i):.4e} \n"
        for i in range(50)
    ),
    50,
    (100, None),
    (5000, None),
)
add(
    "ddpm",
    "".join(f"\rloss: {f(i):.4f}:   {i}%|█         | {i}/100 [00:01<00:09, 10.1it/s]" for i in range(101))
    + "\ntraining complete\n",
    101,
    (0, round(f(0), 4)),
    (100, round(f(100), 4)),
    status="completed",
)
add(
    "torchrec",
    "".join(
        f"step: {10 * i}, loss: {f(i)}, auc: 0.{500 + i}, throughput: {1000 + i}.5 samples/s\n"
        for i in range(50)
    ),
    50,
    (0, f(0)),
    (490, f(49)),
)
add(
    "glued",
    "".join(
        f"ep{e:02d} it{i:04d} | L {f(6 * e + i)} | lr 1e-3\n" for e in range(5) for i in range(0, 600, 100)
    ),
    30,
    (0, f(0)),
    (500, f(524)),
)
add(
    "kfold",
    "".join(
        f"Fold {k}\n" + "".join(f"Epoch {e}: loss {f(e)}, val_loss {v(e)}\n" for e in range(1, 6))
        for k in range(3)
    ),
    15,
    (1, f(1)),
    (5, f(5)),
    15,
    min(v(e) for e in range(1, 6)),
    attempts=3,
)
add(
    "percent-epoch",
    "".join(f"Epoch {i / 20:.2f} | loss {f(i)} | lr 1e-4\n" for i in range(60)),
    60,
    (None, f(0)),
    (None, f(59)),
)
add(
    "timestamps-tab",
    "".join(
        f"2024-05-01T10:00:{i:02d}Z\tINFO\ttrain\tstep\t{i}\tloss\t{f(i)}\tlr\t0.001\n" for i in range(50)
    ),
    50,
    (0, f(0)),
    (49, f(49)),
)
add(
    "upper",
    "".join(
        f"TRAIN STEP {i} LOSS {f(i)}\n" + (f"EVAL STEP {i} LOSS {v(i)}\n" if i % 10 == 9 else "")
        for i in range(50)
    ),
    50,
    (0, f(0)),
    (49, f(49)),
    5,
    v(49),
)
add(
    "json-event",
    "".join(
        f'{{"event":"train","data":{{"step":{i},"loss":{f(i)},"lr":0.001}},"ts":1700000000.{i}}}\n'
        for i in range(50)
    )
    + '{"event":"eval","data":{"step":49,"loss":2.5},"ts":1700000100}\n',
    50,
    (0, f(0)),
    (49, f(49)),
    1,
    2.5,
)
add(
    "json-lists",
    "\n".join(f'{{"step": {i}, "train": {{"loss": {f(i)}}}, "val": {{"loss": {v(i)}}}}}' for i in range(50))
    + "\n",
    50,
    (0, f(0)),
    (49, f(49)),
    50,
    min(v(i) for i in range(50)),
)
