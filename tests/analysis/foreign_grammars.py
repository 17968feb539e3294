# ruff: noqa: E501 (a template is a line of a log and reads as one)
"""Training lines in the manner of programs that no shipped format covers: what they print, and what it means.

A template gives the lines of record `i`; `loss`, `val`, `lr`, `norm` and `ms` are functions of `i`, which tests ask
for again. Written after the grammar of print statements; no line is copied from a log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def loss(i: int) -> str:
    return f"{9.5 / (1 + i / 7) + 1.25 + (i * 37 % 11) / 100:.4f}"


def val(i: int) -> str:
    return f"{9.6 / (1 + i / 7) + 1.5:.4f}"


def norm(i: int) -> str:
    return f"{1.5 + (i * 53 % 17) / 10:.3f}"


def ms(i: int) -> str:
    return f"{412 + (i * 29 % 13) / 10:.1f}"


def lr(i: int) -> str:
    return f"{3e-4 * min(1.0, (i + 1) / 10):.3e}"


@dataclass(frozen=True)
class Grammar:
    """`record` gives the lines of record `i`, `step` its step, `evaluation` what follows every `every`th record."""

    name: str
    record: Callable[[int], str]
    step: Callable[[int], int | None]
    columns: tuple[str, ...] = ("loss",)
    before: str = ""
    evaluation: Callable[[int], str] | None = None
    every: int = 10
    count: int = 40
    dt_ms: Callable[[int], float] | None = None

    def log(self) -> str:
        lines = [self.before] if self.before else []
        for i in range(self.count):
            lines.append(self.record(i))
            if self.evaluation and i % self.every == self.every - 1:
                lines.append(self.evaluation(i))
        return "".join(line + "\n" for line in lines)


def clock(i: int) -> str:
    return f"{10 + i // 60:02d}:{i % 60:02d}:07"


GRAMMARS = (
    Grammar(
        "caffe",
        lambda i: (
            f"I0401 {clock(i)}.123456  1234 solver.cpp:218] Iteration {100 * i} (20.{i % 10} iter/s, 5s/100 iters), loss = {loss(i)}\n"
            f"I0401 {clock(i)}.123456  1234 sgd_solver.cpp:105] Iteration {100 * i}, lr = {lr(i)}"
        ),
        lambda i: 100 * i,
        ("loss", "lr"),
    ),
    Grammar(
        "darknet",
        lambda i: (
            f" {i + 1}: {loss(i)}, {val(i)} avg loss, 0.001000 rate, 3.{100 + i} seconds, {64 * i + 64} images, 10.1 hours left"
        ),
        lambda i: i + 1,
        ("loss_avg",),
        count=6,
    ),
    Grammar(
        "paddlenlp",
        lambda i: (
            f"[2024-03-01 {clock(i)},123] [    INFO] - loss: {loss(i)}, learning_rate: {lr(i)}, global_step: {10 * i + 10}, "
            f"interval_runtime: {float(ms(i)) / 100:.4f}, interval_samples_per_second: 1.9, epoch: {i / 40:.4f}"
        ),
        lambda i: 10 * i + 10,
        ("loss", "lr", "dt_ms"),
        evaluation=lambda i: (
            f"[2024-03-01 {clock(i)},523] [    INFO] - eval_loss: {val(i)}, eval_accuracy: 0.41, eval_runtime: 2.1"
        ),
    ),
    Grammar(
        "paddledetection",
        lambda i: (
            f"[03/01 {clock(i)}] ppdet.engine INFO: Epoch: [{i // 20}] [{i % 20 * 20:3d}/400] learning_rate: {lr(i)} "
            f"loss_cls: 0.41 loss: {loss(i)} eta: 1:02:{i % 60:02d} batch_cost: {float(ms(i)) / 1000:.4f} data_cost: 0.0004 ips: 19.2 images/s"
        ),
        lambda i: i // 20 * 400 + i % 20 * 20,
        ("loss", "lr", "loss_cls", "dt_ms"),
    ),
    Grammar(
        "flax",
        lambda i: (
            f"I0301 {clock(i)}.123456 140123 train.py:231] train epoch: {i + 1}, loss: {loss(i)}, accuracy: {20 + i}.25"
        ),
        lambda i: i + 1,
        ("loss", "accuracy"),
        evaluation=lambda i: (
            f"I0301 {clock(i)}.523456 140123 train.py:244] eval epoch: {i + 1}, loss: {val(i)}, accuracy: 60.21"
        ),
    ),
    Grammar(
        "clu",
        lambda i: (
            f"I0301 {clock(i)}.123456 140123 logging_writer.py:48] [{100 * i + 100}] accuracy=0.{100 + i}, learning_rate={lr(i)}, "
            f"loss={loss(i)}, steps_per_sec=4.{i:02d}"
        ),
        lambda i: 100 * i + 100,
        ("loss", "lr", "accuracy"),
    ),
    Grammar(
        "openrlhf",
        lambda i: (
            f"(TaskRunner pid=4121) step:{i + 1} - global_seqlen/min:{1200 + i} - actor/pg_loss:{float(loss(i)) / 100:.5f} - "
            f"actor/grad_norm:{norm(i)} - actor/lr:{lr(i)} - critic/score/mean:0.{300 + i} - perf/throughput:{1800 + i}.5"
        ),
        lambda i: i + 1,
        ("actor_pg_loss", "grad_norm", "lr"),
    ),
    Grammar(
        "timm",
        lambda i: (
            f"Train: {i // 20} [{i % 20 * 50:4d}/951 ({i % 20 * 50 * 100 // 950:3d}%)]  Loss: {loss(i)} ({val(i)})  "
            f"Time: {float(ms(i)) / 1000:.3f}s, {620.5 + i:.2f}/s  (0.412s, 621.10/s)  LR: {lr(i)}  Data: 0.010 (0.012)"
        ),
        lambda i: i // 20 * 951 + i % 20 * 50,
        ("loss", "loss_avg", "lr"),
    ),
    Grammar(
        "yolox",
        lambda i: (
            f"2024-03-01 {clock(i)} | INFO     | yolox.core.trainer:261 - epoch: {i // 20 + 1}/300, iter: {i % 20 * 10 + 10}/200, "
            f"mem: 5012Mb, iter_time: {float(ms(i)) / 1000:.4f}s, data_time: 0.001s, total_loss: {loss(i)}, iou_loss: 2.4, lr: {lr(i)}, "
            "size: 640, ETA: 1 day, 2:03:04"
        ),
        lambda i: i // 20 * 200 + i % 20 * 10 + 10,
        ("loss", "lr", "dt_ms", "iou_loss"),
        dt_ms=lambda i: round(float(ms(i)), 1),
    ),
    Grammar(
        "detectron2",
        lambda i: (
            f"[03/01 {clock(i)} d2.utils.events]:  eta: 0:{59 - i % 60:02d}:00  iter: {20 * i + 19}  total_loss: {loss(i)}  "
            f"loss_cls: 0.{600 - i}  time: {float(ms(i)) / 1000:.4f}  last_time: 0.2011  data_time: 0.0021  lr: {lr(i)}  max_mem: 2012M"
        ),
        lambda i: 20 * i + 19,
        ("loss", "lr", "loss_cls", "dt_ms"),
        dt_ms=lambda i: round(float(ms(i)), 1),
    ),
    Grammar(
        "chainer",
        lambda i: f"{i + 1:<10d}  {600 * (i + 1):<10d}  {loss(i):<10s}  {val(i):<20s}  {12.5 * (i + 1):<12g}",
        lambda i: 600 * (i + 1),
        before="epoch       iteration   main/loss   validation/main/loss  elapsed_time",
    ),
    Grammar(
        "sockeye",
        lambda i: (
            f"[2024-03-01:{clock(i)}:INFO:sockeye.training_pt:_log] [{100 * i + 100}] Epoch[0] Batch [{100 * i + 100}] "
            f"Speed: {220.5 + i:.2f} samples/sec {5432.1 + i:.2f} tokens/sec perplexity={9000 / (i + 1):.3f}"
        ),
        lambda i: 100 * i + 100,
        ("tok_per_sec", "perplexity"),
    ),
    Grammar(
        "marian",
        lambda i: (
            f"[2024-03-01 {clock(i)}] Ep. 1 : Up. {1000 * i + 1000} : Sen. {12345 * (i + 1):,} : Cost {loss(i)} : "
            f"Time {51.3 + i % 3:.2f}s : {13456.2 + i:.2f} words/s : gNorm {norm(i)}"
        ),
        lambda i: 1000 * i + 1000,
        ("loss", "tok_per_sec", "grad_norm"),
    ),
    Grammar(
        "opennmt",
        lambda i: (
            f"[2024-03-01 {clock(i)},123 INFO] Step {50 * i + 50}/100000; acc: {i + 2}.5; ppl: {12345 / (i + 1):.1f}; xent: {loss(i)}; "
            f"lr: {lr(i)}; sents: {3100 + i}; bsz: 2401/2400/12; {8123 + i}/{8034 + i} tok/s; {12 * (i + 1):6d} sec;"
        ),
        lambda i: 50 * i + 50,
        ("loss", "lr", "acc", "ppl"),
    ),
    Grammar(
        "spacy",
        lambda i: (
            f"{i // 20:3d}  {200 * i:6d}  {float(loss(i)) * 9:12.2f}  {loss(i):>8s}  {20.5 + i:8.2f}  {21.5 + i:8.2f}  {0.2 + i / 100:6.2f}"
        ),
        lambda i: 200 * i,
        ("LOSS_NER", "ENTS_P"),
        before="E    #       LOSS TOK2VEC  LOSS NER  ENTS_P    ENTS_R    SCORE \n---  ------  ------------  --------  --------  --------  ------",
    ),
    Grammar(
        "xgboost",
        lambda i: f"[{i}]\ttrain-rmse:{loss(i)}\teval-rmse:{val(i)}",
        lambda i: i,
    ),
    Grammar(
        "lightgbm",
        lambda i: f"[{10 * i + 10}]\ttraining's l2: {loss(i)}\tvalid_1's l2: {val(i)}",
        lambda i: 10 * i + 10,
    ),
    Grammar(
        "catboost",
        lambda i: (
            f"{i}:\tlearn: {loss(i)}\ttest: {val(i)}\tbest: {val(i)} ({i})\ttotal: {12 + 11 * i}ms\tremaining: {60 - i}s"
        ),
        lambda i: i,
    ),
    Grammar(
        "tensorflow-estimator",
        lambda i: f"INFO:tensorflow:loss = {loss(i)}, step = {100 * i + 1} ({float(ms(i)) / 10:.3f} sec)",
        lambda i: 100 * i + 1,
    ),
    Grammar(
        "caffe",
        lambda i: (
            f"I0301 {clock(i)}.123456  4121 solver.cpp:218] Iteration {100 * i} (2.5 iter/s, 40s/100 iters), loss = {loss(i)}\n"
            f"I0301 {clock(i)}.123460  4121 sgd_solver.cpp:105] Iteration {100 * i}, lr = {lr(i)}"
        ),
        lambda i: 100 * i,
        ("loss", "lr"),
    ),
    Grammar(
        "darknet",
        lambda i: (
            f" {i + 1}: {loss(i)}, {val(i)} avg loss, {lr(i)} rate, {float(ms(i)) / 100:.6f} seconds, {64 * (i + 1)} images"
        ),
        lambda i: i + 1,
        ("loss", "loss_avg", "dt_ms"),
        dt_ms=lambda i: round(float(ms(i)) * 10, 3),
    ),
    Grammar(
        "gpt-neox",
        lambda i: (
            f"  10.0.0.1:  samples/sec: {97.5 + i % 5:.3f} | iteration {10 * i + 10:8d}/  320000 | elapsed time per iteration (ms): {ms(i)} | "
            f"learning rate: {lr(i)} | approx flops per GPU: 99.8TFLOPS | lm_loss: {loss(i)} | loss scale: 65536.0 | number of skipped iterations:   0 |"
        ),
        lambda i: 10 * i + 10,
        ("loss", "lr", "dt_ms"),
        dt_ms=lambda i: float(ms(i)),
    ),
    Grammar(
        "litgpt",
        lambda i: (
            f"Epoch 1 | iter {16 * i + 16} step {i + 1} | loss train: {loss(i)}, val: n/a | iter time: {ms(i)} ms (step) "
            f"remaining time: 0:{59 - i:02d}:11"
        ),
        lambda i: i + 1,
        ("loss", "dt_ms"),
        dt_ms=lambda i: float(ms(i)),
    ),
    Grammar(
        "lingua",
        lambda i: (
            f"0: INFO    24-03-01 {clock(i)}.123456 - 0:0{i // 60}:{i % 60:02d} - step: {10 * i + 10:6}  acc: 0  loss: {float(loss(i)):7.4f}  "
            f"grad: {norm(i)}  flops: 1.{20 + i}e+14  wps: {1.2e4 + i:.2e}  iter: {float(ms(i)) / 1000:.4f}  data: 0.0011  lr: {lr(i)}  mem: 51%  pow: 500 W"
        ),
        lambda i: 10 * i + 10,
        ("loss", "lr", "grad_norm", "tok_per_sec", "dt_ms"),
    ),
    Grammar(
        "olmo",
        lambda i: (
            f"2024-03-01 {clock(i)}.123\tnode1:0\tolmo.train:816\tINFO\t[step={i + 1}/1000,epoch=0]\n"
            f"    optim/total_grad_norm={norm(i)}\n    train/CrossEntropyLoss={loss(i)}\n    train/Perplexity={9000 / (i + 1):.1f}\n"
            f"    throughput/device/tokens_per_second={5000 + i}.5"
        ),
        lambda i: i + 1,
        ("loss", "grad_norm", "tok_per_sec"),
    ),
    Grammar(
        "stable-baselines3",
        lambda i: (
            "---------------------------------\n"
            f"| rollout/           |          |\n|    ep_rew_mean     | {21.5 + i:<8} |\n| time/              |          |\n"
            f"|    fps             | {1200 + i % 7:<8} |\n|    iterations      | {i + 1:<8} |\n|    total_timesteps | {2048 * (i + 1):<8} |\n"
            f"| train/             |          |\n|    loss            | {loss(i):<8} |\n|    learning_rate   | {lr(i):<8} |\n"
            "---------------------------------"
        ),
        lambda i: i + 1,
        ("loss", "lr"),
    ),
    Grammar(
        "word-language-model",
        lambda i: (
            f"| epoch {i // 20 + 1:3d} | {(i % 20 + 1) * 200:5d}/ 4200 batches | lr 5.00 | ms/batch {ms(i)} | loss {loss(i):>5s} | "
            f"ppl {9000 / (i + 1):8.2f}"
        ),
        lambda i: i // 20 * 4200 + (i % 20 + 1) * 200,
        ("loss", "lr", "ppl", "dt_ms"),
        dt_ms=lambda i: float(ms(i)),
        every=20,
        evaluation=lambda i: (
            "-" * 89
            + f"\n| end of epoch {i // 20 + 1:3d} | time: 12.34s | valid loss {val(i):>5s} | valid ppl 123.45\n"
            + "-" * 89
        ),
    ),
    Grammar(
        "pytorch-tutorial",
        lambda i: f"[{i // 20 + 1}, {(i % 20 + 1) * 2000:5d}] loss: {loss(i)}",
        lambda i: (i % 20 + 1) * 2000,
    ),
    Grammar(
        "bmtrain",
        lambda i: (
            f"| Iter: {i + 1:6d} | loss: {loss(i)} average_loss: {val(i)} | lr: {lr(i)} scale: 1048576.0 | time: {float(ms(i)) / 1000:.4f} | "
            f"grad_norm: {norm(i)}"
        ),
        lambda i: i + 1,
        ("loss", "loss_avg", "lr", "grad_norm", "dt_ms"),
    ),
    Grammar(
        "csv",
        lambda i: f"{i},{loss(i)},{val(i)},{lr(i)}",
        lambda i: i,
        ("loss", "lr"),
        before="step,train_loss,val_loss,lr",
    ),
    Grammar(
        "pipes-under-a-heading",
        lambda i: f"| {i + 1:5d} | {loss(i)} | {norm(i)} | {ms(i)} |",
        lambda i: i + 1,
        ("loss", "grad_norm", "dt_ms"),
        before="| step  | loss   | gnorm | step_ms |\n|-------|--------|-------|-------|",
    ),
    Grammar(
        "json-in-words",
        lambda i: (
            f"INFO:root:metrics at step {i}: {{'loss': {loss(i)}, 'lr': {lr(i)}, 'grad_norm': {norm(i)}}}"
        ),
        lambda i: i,
        ("loss", "lr", "grad_norm"),
        evaluation=lambda i: f"INFO:root:validation at step {i}: {{'loss': {val(i)}}}",
    ),
    Grammar(
        "value-words",
        lambda i: (
            f"{clock(i)} it {i:05d}/04000 nll {loss(i)} (avg {val(i)}) gnorm {norm(i)} lr {lr(i)} {ms(i)} ms {81.2 + i / 10:.1f}k tok/s"
        ),
        lambda i: i,
        ("loss", "loss_avg", "grad_norm", "lr", "dt_ms", "tok_per_sec"),
        dt_ms=lambda i: float(ms(i)),
        evaluation=lambda i: f"{clock(i)} >>> eval @ {i}: nll {val(i)}",
    ),
    Grammar(
        "logfmt",
        lambda i: (
            f'ts=2024-03-01T{clock(i)}Z level=info msg="train step" step={i} loss={loss(i)} lr={lr(i)} step_time={ms(i)}ms'
        ),
        lambda i: i,
        ("loss", "lr", "dt_ms"),
        dt_ms=lambda i: float(ms(i)),
        evaluation=lambda i: (
            f'ts=2024-03-01T{clock(i)}Z level=info msg="eval done" step={i} val_loss={val(i)}'
        ),
    ),
    Grammar(
        "hash-counter",
        lambda i: f"#{i * 5:06d}  objective {loss(i)}  speed {1234.5 + i:.1f} tok/s",
        lambda i: i * 5,
        ("loss",),
    ),
    Grammar(
        "espnet",
        lambda i: (
            f"[node1] 2024-03-01 {clock(i)},123 (trainer:732) INFO: 1epoch:train:{100 * i + 1}-{100 * i + 100}batch: iter_time=0.11, "
            f"forward_time=0.2{i:02d}, loss={loss(i)}, acc=0.5{i:02d}, optim0_lr0={lr(i)}, train_time=1.2{i:02d}"
        ),
        lambda i: 100 * i + 100,
        ("loss", "acc"),
    ),
    Grammar(
        "epoch-summary",
        lambda i: (
            f"Epoch {i + 1}/40: train_loss = {loss(i)}, val_loss = {val(i)}, val_acc = 0.5{i:02d} ({12.5 + i % 3:.1f}s)"
        ),
        lambda i: i + 1,
    ),
    Grammar(
        "fastai",
        lambda i: f"{i:<10d}{loss(i):<12s}{val(i):<12s}0.5{i:02d}     00:{10 + i % 3}",
        lambda i: i,
        before="epoch     train_loss  valid_loss  accuracy  time",
    ),
    Grammar(
        "mnist-example",
        lambda i: (
            f"Train Epoch: {i // 20 + 1} [{i % 20 * 640}/60000 ({i % 20 * 640 / 600:.0f}%)]\tLoss: {loss(i)}"
        ),
        lambda i: i // 20 + 1,
        every=20,
        evaluation=lambda i: f"\nTest set: Average loss: {val(i)}, Accuracy: 98{i}/10000 (98%)\n",
    ),
    Grammar(
        "llama2.c",
        lambda i: f"{10 * i} | loss {loss(i)} | lr {lr(i)} | {ms(i)}ms | mfu {41 + i / 100:.2f}%",
        lambda i: 10 * i,
        ("loss", "lr", "dt_ms", "mfu"),
        dt_ms=lambda i: float(ms(i)),
        evaluation=lambda i: f"step {10 * i}: train loss {loss(i)}, val loss {val(i)}",
    ),
    Grammar(
        "nanoT5",
        lambda i: (
            f"[2024-03-01 {clock(i)},123][Main][INFO] - [train] Step {100 * i + 100} out of 65536 | Loss --> {loss(i)} | Grad_l2 --> {norm(i)} | Lr --> {lr(i)} | Seconds_per_step --> {float(ms(i)) / 1000:.4f} |"
        ),
        lambda i: 100 * i + 100,
        ("loss", "lr", "dt_ms", "grad_norm"),
        evaluation=lambda i: (
            f"[2024-03-01 {clock(i)},523][Main][INFO] - [eval] Step {100 * i + 100} out of 65536 | Loss --> {val(i)} | Accuracy --> 0.431 |"
        ),
    ),
    Grammar(
        "tinygrad",
        lambda i: (
            f"{i:5d} {ms(i)} ms run,    1.2 ms python,    0.3 ms fetch,  {loss(i)} loss, {lr(i)} LR, 5.21 GB used,  1234.50 GFLOPS"
        ),
        lambda i: i,
        ("loss", "lr"),
    ),
    Grammar(
        "geometric",
        lambda i: (
            f"Epoch: {i + 1:03d}, Loss: {loss(i)}, Train: 0.5{i:02d}, Val: 0.4{i:02d}, Test: 0.3{i:02d}"
        ),
        lambda i: i + 1,
        ("loss",),
    ),
    Grammar(
        "minGPT",
        lambda i: f"iter_dt {ms(i)}ms; iter {100 * i}: train loss {loss(i)}",
        lambda i: 100 * i,
        ("loss", "dt_ms"),
        dt_ms=lambda i: float(ms(i)),
    ),
    Grammar("micrograd", lambda i: f"step {i} loss {loss(i)}, accuracy {50 + i}.5%", lambda i: i, ("loss",)),
    Grammar(
        "sklearn",
        lambda i: f"Iteration {i + 1}, loss = {loss(i)}\nValidation score: 0.8{i:02d}",
        lambda i: i + 1,
        ("loss",),
    ),
    Grammar(
        "bracketed",
        lambda i: f"[{clock(i)}] [step {i}] [loss {loss(i)}] [lr {lr(i)}] [{ms(i)} ms/step]",
        lambda i: i,
        ("loss", "lr", "dt_ms"),
        dt_ms=lambda i: float(ms(i)),
    ),
    Grammar(
        "hlb-table",
        lambda i: f"|  {i:9d}  |  {10 * i:12d}  |  {loss(i):>10s}  |  {val(i):>8s}  |  {0.41:.4f}  |",
        lambda i: 10 * i,
        ("loss",),
        before="-" * 60
        + "\n|  epoch      |  current_steps |  train_loss  |  val_loss  |  val_acc |\n"
        + "-" * 60,
    ),
    Grammar(
        "flux.jl",
        lambda i: f"[ Info: Epoch {i + 1}: loss = {loss(i)}, η = {lr(i)}",
        lambda i: i + 1,
        ("loss",),
    ),
    Grammar(
        "tabs",
        lambda i: f"{i}\t{loss(i)}\t{val(i)}\t{lr(i)}",
        lambda i: i,
        ("loss", "lr"),
        before="iter\ttrain_loss\tvalid_loss\tlearning_rate",
    ),
    Grammar(
        "step-at-end",
        lambda i: f"loss {loss(i)} grad {norm(i)} @ step {i * 10}",
        lambda i: i * 10,
        ("loss", "grad_norm"),
    ),
    Grammar(
        "k8s",
        lambda i: (
            f"2024-03-01T{clock(i)}.123456789Z stdout F trainer-0 step={i} loss={loss(i)} tokens_per_sec={12000 + i}"
        ),
        lambda i: i,
        ("loss", "tok_per_sec"),
    ),
    Grammar(
        "ranks",
        lambda i: "\n".join(
            f"[rank{r}]: {clock(i)} iteration {i} of 1000: objective={loss(i)}; |g|={norm(i)}" for r in (0,)
        ),
        lambda i: i,
        ("loss",),
    ),
    Grammar(
        "dino",
        lambda i: (
            f"Epoch: [{i // 20}/100]  [{i % 20 * 10:4d}/200]  eta: 0:01:{59 - i % 60:02d}  loss: {loss(i)} ({val(i)})  lr: {lr(i)} (0.000100)  time: {float(ms(i)) / 1000:.6f}  data: 0.000211  max mem: 15210"
        ),
        lambda i: i // 20 * 200 + i % 20 * 10,
        ("loss", "loss_avg", "lr", "dt_ms"),
    ),
    Grammar(
        "rust-tracing",
        lambda i: (
            f"2024-03-01T{clock(i)}.123456Z  INFO train: iteration={i + 1} loss={loss(i)} lr={lr(i)} items_per_sec={1234.5 + i}"
        ),
        lambda i: i + 1,
        ("loss", "lr"),
    ),
    Grammar(
        "arrows",
        lambda i: f"step {i:>4} -> loss: {loss(i)} -> ppl: {9000 / (i + 1):.2f}",
        lambda i: i,
        ("loss", "ppl"),
    ),
    Grammar(
        "colossal",
        lambda i: (
            f"[03/01/24 {clock(i)}] INFO     colossalai - colossalai - INFO: /opt/train.py:121 train\n                    INFO     colossalai - colossalai - INFO: Epoch: {i + 1}, Loss: {loss(i)}, LR: {lr(i)}"
        ),
        lambda i: i + 1,
        ("loss", "lr"),
    ),
    Grammar(
        "time-per-batch",
        lambda i: (
            f"Epoch {i // 20 + 1} Batch {i % 20 * 50} Loss {loss(i)} Accuracy 0.{100 + i} ({float(ms(i)) / 1000:.3f}s)"
        ),
        lambda i: i % 20 * 50,
        ("loss",),
    ),
    Grammar(
        "two-lines",
        lambda i: f"=== Step {i} ===\n  loss:      {loss(i)}\n  grad_norm: {norm(i)}\n  lr:        {lr(i)}",
        lambda i: i,
        ("loss", "grad_norm", "lr"),
    ),
    Grammar(
        "unit-suffixes",
        lambda i: f"step {i} | loss {loss(i)} | {ms(i)}ms/step | 1.2M tok/s | 45.{i:02d}% MFU | 23.4GB",
        lambda i: i,
        ("loss", "dt_ms", "tok_per_sec"),
        dt_ms=lambda i: float(ms(i)),
    ),
    Grammar(
        "eq-spaces",
        lambda i: (
            f"iter = {i:6d}  train/loss = {loss(i)}  train/lr = {lr(i)}  perf/tokens_per_sec = {1234 + i}"
        ),
        lambda i: i,
        ("loss", "lr", "tok_per_sec"),
        evaluation=lambda i: f"iter = {i:6d}  val/loss = {val(i)}",
    ),
    Grammar(
        "json-nested",
        lambda i: (
            f'{clock(i)} metrics: {{"step": {i}, "train": {{"loss": {loss(i)}, "lr": {lr(i)}}}, "time": {{"step_ms": {ms(i)}}}}}'
        ),
        lambda i: i,
        ("loss", "lr", "dt_ms"),
        dt_ms=lambda i: float(ms(i)),
    ),
    Grammar(
        "of-words",
        lambda i: f"Training step {i + 1} of 40: total loss is {loss(i)}; learning rate is {lr(i)}",
        lambda i: i + 1,
        ("loss", "lr"),
    ),
    Grammar("semicolon", lambda i: f"e:0;s:{i};l:{loss(i)};g:{norm(i)};t:{ms(i)}ms", lambda i: i, ("loss",)),
    Grammar(
        "validation-each",
        lambda i: f"Epoch {i + 1} | train loss {loss(i)} | val loss {val(i)} | lr {lr(i)} | {12 + i % 3}s",
        lambda i: i + 1,
        ("loss", "lr"),
    ),
    Grammar(
        "percent",
        lambda i: f"{i * 2.5:5.1f}% done, step {i}, smoothed loss {val(i)}, loss {loss(i)}",
        lambda i: i,
        ("loss",),
    ),
    Grammar(
        "openclip",
        lambda i: (
            f"2024-03-01,{clock(i)} | INFO | Train Epoch: 0 [{(i + 1) * 1024:6d}/100000 ({i + 1}%)] Data (t): 0.012 Batch (t): {float(ms(i)) / 1000:.3f}, {1000 + i}.1/s, 125.1/s/gpu LR: {lr(i)} Logit Scale: 14.286 Contrastive_loss: {loss(i)} ({val(i)}) Loss: {loss(i)} ({val(i)})"
        ),
        lambda i: 0,
        ("loss", "loss_avg", "lr"),
    ),
    Grammar(
        "imagenet",
        lambda i: (
            f"Epoch: [{i // 20}][{i % 20 * 10:4d}/200]\tTime  {float(ms(i)) / 1000:.3f} ( 0.412)\tData  0.010 ( 0.012)\tLoss {loss(i)} ({val(i)})\tAcc@1   0.{i:02d} (  0.10)\tAcc@5   1.{i:02d} (  1.10)"
        ),
        lambda i: i // 20 * 200 + i % 20 * 10,
        ("loss", "loss_avg", "dt_ms"),
    ),
    Grammar(
        "fairseq-simple",
        lambda i: (
            f"2024-03-01 {clock(i)} | INFO | train_inner | epoch 001:    {100 * i + 100} / 11102 loss={loss(i)}, nll_loss={val(i)}, ppl={9000 / (i + 1):.1f}, wps={30000 + i}.1, ups=2.5, wpb=12000, bsz=400, num_updates={100 * i + 100}, lr={lr(i)}, gnorm={norm(i)}, clip=0, loss_scale=128, train_wall=40, wall=41"
        ),
        lambda i: 100 * i + 100,
        ("loss", "lr", "grad_norm", "tok_per_sec", "ppl"),
    ),
    Grammar(
        "dllogger",
        lambda i: (
            f"DLL 2024-03-01 {clock(i)}.123456 - Training Epoch: 0 Training Iteration: {10 * i + 10}  step_loss : {loss(i)}  learning_rate : {lr(i)} "
        ),
        lambda i: 10 * i + 10,
        ("loss", "lr"),
    ),
    Grammar(
        "tacotron2",
        lambda i: f"Train loss {i} {loss(i)} Grad Norm {norm(i)} {float(ms(i)) / 100:.2f}s/it",
        lambda i: i,
        ("loss", "grad_norm", "dt_ms"),
    ),
    Grammar(
        "char-rnn",
        lambda i: (
            f"{i + 1}/2150 (epoch {(i + 1) / 430:.3f}), train_loss = {loss(i)}, grad/param norm = {norm(i)}e-01, time/batch = {float(ms(i)) / 1000:.2f}s"
        ),
        lambda i: i + 1,
        ("loss", "dt_ms"),
    ),
    Grammar(
        "speechbrain",
        lambda i: (
            f"epoch: {i + 1}, lr: {lr(i)} - train loss: {loss(i)} - valid loss: {val(i)}, valid PER: 50.{i:02d}"
        ),
        lambda i: i + 1,
        ("loss", "lr"),
    ),
    Grammar(
        "coqui",
        lambda i: (
            f"\n   --> STEP: {i}/406 -- GLOBAL_STEP: {i + 1}\n     | > loss: {loss(i)}  ({val(i)})\n     | > grad_norm: {norm(i)}  ({norm(i)})\n     | > current_lr: {lr(i)} \n     | > step_time: {float(ms(i)) / 1000:.4f}  (0.412)"
        ),
        lambda i: i + 1,
        ("loss", "grad_norm", "lr"),
    ),
    Grammar(
        "t5x",
        lambda i: (
            f"I0301 {clock(i)}.123456 140123 train_lib.py:612] Train step {100 * i + 100}: loss={loss(i)}, learning_rate={lr(i)}, timing/steps_per_second=4.{i:02d}, cross_ent_loss={val(i)}"
        ),
        lambda i: 100 * i + 100,
        ("loss", "lr"),
    ),
    Grammar(
        "easylm",
        lambda i: (
            f"{{'eval_accuracy': None, 'step': {i * 10}, 'train_loss': {loss(i)}, 'learning_rate': {lr(i)}, 'gradient_norm': {norm(i)}}}"
        ),
        lambda i: i * 10,
        ("loss", "lr", "grad_norm"),
    ),
    Grammar(
        "ignite",
        lambda i: (
            f"2024-03-01 {clock(i)},123 ignite INFO: Epoch[{i // 20 + 1}] Iteration[{i % 20 * 10 + 10}/200] Loss: {loss(i)}"
        ),
        lambda i: i // 20 * 200 + i % 20 * 10 + 10,
        ("loss",),
    ),
    Grammar(
        "keras-like",
        lambda i: (
            f"Epoch {i + 1}/40\n782/782 - {12 + i % 3}s - loss: {loss(i)} - accuracy: 0.5{i:02d} - val_loss: {val(i)} - val_accuracy: 0.4{i:02d} - {12 + i % 3}s/epoch - 16ms/step"
        ),
        lambda i: i + 1,
        ("loss", "accuracy"),
    ),
    Grammar(
        "nemo",
        lambda i: (
            f"[NeMo I 2024-03-01 {clock(i)} megatron_gpt_model:512] iteration: {i + 1} | global_batch_size: 256 | reduced_train_loss: {loss(i)} | lr: {lr(i)} | train_step_timing in s: {float(ms(i)) / 1000:.3f}"
        ),
        lambda i: i + 1,
        ("loss", "lr"),
    ),
    Grammar(
        "parlai",
        lambda i: (
            f"{clock(i)} | time:{10 * i + 10}s total_exs:{1000 * i + 1000} total_steps:{100 * i + 100} epochs:{i / 100:.2f}\n    clen  ctpb  loss  lr  ppl  tpb\n      101  2001 {loss(i)} {lr(i)} {9000 / (i + 1):.1f} 3001"
        ),
        lambda i: None,
        ("loss", "lr", "ppl"),
    ),
    Grammar(
        "rank-dup",
        lambda i: "\n".join(f"[rank{r}] iter: {i} | loss={loss(i)} | lr={lr(i)}" for r in (0,)),
        lambda i: i,
        ("loss", "lr"),
    ),
    Grammar(
        "no-step", lambda i: f"loss: {loss(i)}  grad norm: {norm(i)}", lambda i: None, ("loss", "grad_norm")
    ),
    Grammar(
        "thousands",
        lambda i: f"Iteration {i * 1000:,} | Loss {loss(i)} | {12000 + i:,} tok/s",
        lambda i: i * 1000,
        ("loss", "tok_per_sec"),
    ),
    Grammar(
        "sec-per-step",
        lambda i: f"global step {i * 100}, loss = {loss(i)} ({float(ms(i)) / 100:.3f} sec/step)",
        lambda i: i * 100,
        ("loss", "dt_ms"),
        dt_ms=lambda i: round(float(ms(i)) * 10, 3),
    ),
    Grammar(
        "rich-box",
        lambda i: f"│ {i:>5} │ {loss(i)} │ {norm(i)} │ {lr(i)} │",
        lambda i: i,
        ("loss", "grad_norm", "lr"),
        before="┏━━━━━━━┳━━━━━━━━┳━━━━━━━┳━━━━━━━┓\n┃ step  ┃ loss   ┃ gnorm ┃ lr    ┃\n┡━━━━━━━╇━━━━━━━━╇━━━━━━━╇━━━━━━━┩",
    ),
    Grammar(
        "xtuner",
        lambda i: (
            f"03/01 {clock(i)} - mmengine - INFO - Iter(train) [{10 * i + 10:5d}/1000]  lr: {lr(i)}  eta: 0:10:11  time: {float(ms(i)) / 1000:.4f}  data_time: 0.0051  memory: 12011  loss: {loss(i)}"
        ),
        lambda i: 10 * i + 10,
        ("loss", "lr", "dt_ms"),
    ),
    Grammar(
        "swift-tensorboard",
        lambda i: f"Step[{i}] Loss={loss(i)} | Acc=0.{100 + i} | LR={lr(i)} | {float(ms(i)):.0f} ms",
        lambda i: i,
        ("loss", "lr", "dt_ms"),
    ),
    Grammar(
        "slash-keys",
        lambda i: (
            f"step={i} train/loss_ce={val(i)} train/total_loss={loss(i)} optim/learning_rate={lr(i)} perf/tokens_per_second={100 + i}"
        ),
        lambda i: i,
        ("loss", "lr", "tok_per_sec"),
    ),
    Grammar(
        "upper",
        lambda i: f"EPOCH 1 STEP {i} LOSS {loss(i)} LR {lr(i)} TIME {ms(i)}MS",
        lambda i: i,
        ("loss", "lr"),
    ),
    Grammar(
        "markdown",
        lambda i: f"| {i} | {loss(i)} | {val(i)} |",
        lambda i: i,
        ("loss",),
        before="| Step | Training Loss | Validation Loss |\n|------|---------------|-----------------|",
    ),
    Grammar("paren-step", lambda i: f"({i}) loss={loss(i)} lr={lr(i)}", lambda i: i, ("loss", "lr")),
    Grammar("time-first", lambda i: f"{i * 12.5:.1f}s step {i} loss {loss(i)}", lambda i: i, ("loss",)),
    Grammar(
        "sent-piece",
        lambda i: f"update={i * 10} objf={loss(i)} speed={1000 + i}w/s lr={lr(i)}",
        lambda i: i * 10,
        ("loss", "lr"),
    ),
    Grammar("neg-loss", lambda i: f"iter {i} elbo -{loss(i)} loss -{loss(i)}", lambda i: i, ()),
    Grammar(
        "grpo-dict",
        lambda i: (
            f"{{'loss': {loss(i)}, 'grad_norm': {norm(i)}, 'learning_rate': {lr(i)}, 'rewards/mean': 0.{i:02d}, 'kl': 0.0{i:02d}, 'step': {i + 1}}}"
        ),
        lambda i: i + 1,
        ("loss", "grad_norm", "lr", "kl"),
    ),
    Grammar(
        "accelerate",
        lambda i: (
            f"03/01/2024 {clock(i)} - INFO - __main__ - Step {i + 1}/40 | Loss: {loss(i)} | LR: {lr(i)} | Grad: {norm(i)}"
        ),
        lambda i: i + 1,
        ("loss", "lr", "grad_norm"),
    ),
    Grammar(
        "diffusers-tqdm-newline",
        lambda i: (
            f"Steps:  {int(i * 2.5)}%|{'█' * (i // 4)}{' ' * (10 - i // 4)}| {i + 1}/40 [00:{i % 60:02d}<01:00,  1.0{i % 10}s/it, lr={lr(i)}, step_loss={loss(i)}]"
        ),
        lambda i: i + 1,
        ("loss", "lr"),
    ),
    Grammar(
        "bert-pretrain",
        lambda i: (
            f"[Epoch 0] step: {i * 10} mlm_loss: {val(i)} nsp_loss: 0.{100 + i} total_loss: {loss(i)} lr: {lr(i)}"
        ),
        lambda i: i * 10,
        ("loss", "lr"),
    ),
    Grammar(
        "moe",
        lambda i: (
            f"iter {i}/1000 | lm_loss {loss(i)} | aux_loss 0.0{i:02d} | z_loss 0.0001 | lr {lr(i)} | tflops {300 + i}.1 | mem 45.{i:02d} GB"
        ),
        lambda i: i,
        ("loss", "lr", "aux_loss"),
    ),
    Grammar(
        "gpt-fast",
        lambda i: (
            f"step: {i}, train_loss: {loss(i)}, val_loss: {val(i)}, tokens/sec: {12000 + i}, elapsed: {i * 3.5:.1f}s"
        ),
        lambda i: i,
        ("loss", "tok_per_sec"),
    ),
    Grammar(
        "gan",
        lambda i: f"[Epoch 0/200] [Batch {i}/938] [D loss: 0.{300 + i}] [G loss: 1.{200 + i}]",
        lambda i: i,
        ("D_loss", "G_loss"),
    ),
    Grammar(
        "dqn",
        lambda i: f"Episode {i + 1:4d} | reward {20 + i}.5 | loss {loss(i)} | eps 0.9{i:02d}",
        lambda i: None,
        ("loss",),
    ),
    Grammar(
        "glow",
        lambda i: (
            f"Iter {i} | Time {float(ms(i)) / 1000:.4f}({val(i)}) | Bit/dim {loss(i)}({val(i)}) | Steps 120(119.50)"
        ),
        lambda i: i,
        (),
    ),
    Grammar(
        "segmentation",
        lambda i: (
            f"epoch:1/100, iter: {i * 10 + 10}/3000, loss: {loss(i)}, lr: {lr(i)}, batch_cost: {float(ms(i)) / 1000:.4f}, reader_cost: 0.0011, ips: 12.1 samples/sec | ETA 00:10:11"
        ),
        lambda i: i * 10 + 10,
        ("loss", "lr", "dt_ms"),
    ),
    Grammar(
        "julia-table",
        lambda i: f" {i:5d} │ {loss(i)} │ {val(i)} ",
        lambda i: i,
        ("loss",),
        before=" step  │ loss   │ valid ",
    ),
    Grammar(
        "loguru",
        lambda i: (
            f"2024-03-01 {clock(i)}.123 | INFO     | __main__:train:88 - [train] epoch=0 step={i} loss={loss(i)} lr={lr(i)}"
        ),
        lambda i: i,
        ("loss", "lr"),
        evaluation=lambda i: (
            f"2024-03-01 {clock(i)}.523 | INFO     | __main__:evaluate:120 - [valid] epoch=0 step={i} loss={val(i)}"
        ),
    ),
    Grammar(
        "absl",
        lambda i: (
            f"I0301 {clock(i)}.123456 139 trainer.py:99] step {i}: loss {loss(i)}, {ms(i)} ms/step, {1234 + i} examples/s"
        ),
        lambda i: i,
        ("loss", "dt_ms"),
        dt_ms=lambda i: float(ms(i)),
    ),
    Grammar(
        "nested-json",
        lambda i: (
            f'{{"event": "train", "data": {{"iteration": {i}, "metrics": {{"loss": {loss(i)}, "lr": {lr(i)}}}}}}}'
        ),
        lambda i: i,
        ("loss", "lr"),
    ),
    Grammar(
        "yaml-ish", lambda i: f"- step: {i}\n  loss: {loss(i)}\n  lr: {lr(i)}", lambda i: i, ("loss", "lr")
    ),
    Grammar(
        "seconds-elapsed",
        lambda i: f"[{i * 3.5:8.1f}s] step {i} loss={loss(i)} ema={val(i)} |g|={norm(i)}",
        lambda i: i,
        ("loss",),
    ),
    Grammar(
        "train-valid-pairs",
        lambda i: f"[train] step: {i} loss: {loss(i)} lr: {lr(i)}",
        lambda i: i,
        ("loss", "lr"),
        evaluation=lambda i: f"[valid] step: {i} loss: {val(i)} ppl: 12.3{i}",
    ),
    Grammar(
        "comma-dec",
        lambda i: f"Step: {i}; Loss: {loss(i)}; Throughput: {1.5 + i / 100:.2f}k tokens/s; Memory: 12.5GiB",
        lambda i: i,
        ("loss", "tok_per_sec"),
    ),
    Grammar(
        "arrow-epoch",
        lambda i: f"Epoch {i + 1}/40 => loss {loss(i)} => val_loss {val(i)} => time 12s",
        lambda i: i + 1,
        ("loss",),
    ),
)
