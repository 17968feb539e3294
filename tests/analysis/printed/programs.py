# ruff: noqa: E501 (a template is a line of a log and reads as one)
"""More programs whose lines no shipped format, or one that is not theirs, reads."""

from __future__ import annotations

from tests.analysis.printed import Printed, falling, validated

f, v = falling, validated
LOGS: list[Printed] = []


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
            "the program's own print statements and loggers",
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
    "t5x",
    "".join(
        f"I0501 10:00:{i:02d}.123456 140123 metrics_manager.py:100] step {100 * i} | loss {f(i)} | learning_rate 0.001\n"
        for i in range(30)
    ),
    30,
    (0, f(0)),
    (2900, f(29)),
)
add(
    "clu-writer",
    "".join(
        f"I0501 10:00:{i:02d}.123456 140123 logging_writer.py:64] [{100 * i}] accuracy=0.{500 + i}, cross_ent_loss={f(i)}, learning_rate=0.001, loss={f(i)}, timing/steps_per_second=4.{i:02d}\n"
        + (
            f"I0501 10:00:{i:02d}.223456 140123 logging_writer.py:64] [{100 * i}] eval/loss={v(i)}, eval/accuracy=0.5\n"
            if i % 10 == 9
            else ""
        )
        for i in range(30)
    ),
    30,
    (0, f(0)),
    (2900, f(29)),
    {"val_loss": (3, v(29))},
)
add(
    "levanter",
    "".join(
        f"\r2024-05-01T10:00:00 - 0 - levanter.callbacks - INFO - \rtrain:  {i}%|█         | {i}/100 [01:{i % 60:02d}<09:00, 1.2it/s, loss={f(i)}]"
        for i in range(1, 101)
    )
    + "\n2024-05-01T10:10:00 - 0 - levanter.eval - INFO - eval loss: 3.456\n",
    100,
    (1, f(1)),
    (100, f(100)),
    {"val_loss": (1, 3.456)},
    status="completed",
)
add(
    "galore",
    "".join(
        f"\rUpdate steps:   {i}%|█         | {i}/100 [01:{i % 60:02d}<09:00, 1.2it/s]" for i in range(1, 20)
    )
    + "\n"
    + "".join(
        f"2024-05-01 10:00:{i:02d}.123 | INFO     | __main__:main:555 - Eval loss at step {1000 * i}: {v(i)}\n"
        for i in range(1, 4)
    ),
    0,
    (None, None),
    (None, None),
    {"val_loss": (3, v(3))},
)
add(
    "fairseq2",
    "".join(
        f"[2024-05-01 10:00:{i:02d},123] [Rank 0] INFO fairseq2.recipe - Train Metrics (step {50 * i}): Loss: {f(i)} | Gradient Norm: 1.{i:02d} | Elapsed Time: 12s | Wall Time: {30 + i}s | Learning Rate: 1e-05 | Batch Size: 123\n"
        for i in range(1, 31)
    ),
    30,
    (50, f(1)),
    (1500, f(30)),
)
add(
    "dschat",
    "".join(f"Epoch: 0, Step: {i}, Rank: {r}, loss = {f(i)}\n" for i in range(20) for r in range(2))
    + "***** Evaluating perplexity, Epoch 1/1 *****\nppl: 2.345, loss: 0.852\n",
    40,
    (0, f(0)),
    (19, f(19)),
)
add(
    "colossal",
    "".join(
        f"[05/01/24 10:00:{i:02d}] INFO     colossalai - colossalai - INFO: /app/train.py:123 main\n                    INFO     colossalai - colossalai - INFO: [Epoch {i // 10} / Train] Step {i}: Loss = {f(i)} | LR = 0.001 | Throughput = 123.{i}\n"
        for i in range(30)
    ),
    30,
    (0, f(0)),
    (29, f(29)),
)
add(
    "mindformers",
    "".join(
        f"2024-05-01 10:00:{i:02d},123 - mindformers[mindformers/core/callback/callback.py:310] - INFO - {{ Epoch:[  1/  2], step:[{2 * i:5d}/  100], loss: {f(i)}, per_step_time: 2345ms, lr: 1e-05, overflow cond: False, loss_scale: 65536.0, global_norm: [1.2] }}\n"
        for i in range(1, 31)
    ),
    30,
    (2, f(1)),
    (60, f(30)),
)
add(
    "internevo",
    "".join(
        f"2024-05-01 10:00:{i:02d},123\tINFO training_internlm.py:600 in record_current_batch_training_metrics -- tflops=188.{i:02d}, step={i}, loss={f(i)}, tgs (tokens/gpu/second)=4252.{i:02d}, tgs/last_tgs_1=4252.{i:02d}, lr=4.0e-07, loss_scale=65536.0, grad_norm={{'0_default': 12.{i:02d}}}, micro_num=4, num_consumed_tokens={131072 * (i + 1)}, inf_nan_skip_batches=0, adam_beta2=0.95, fwd_bwd_time=5.87\n"
        for i in range(30)
    ),
    30,
    (0, f(0)),
    (29, f(29)),
)
add(
    "prime-rl",
    "".join(
        f"10:00:{i:02d}    INFO Step {i} | Time: {12 + i}.3s | Loss: {f(i)} | Entropy: 0.{100 + i} | Grad. Norm: 0.{200 + i} | LR: 1.00e-06 | Throughput: {1234 + i} tokens/s | MFU: 12.{i}% | Peak Mem.: 20.1 GiB\n"
        for i in range(30)
    ),
    30,
    (0, f(0)),
    (29, f(29)),
)
add(
    "openclip",
    "".join(
        f"2023-05-01,10:00:{i:02d} | INFO | Train Epoch: {i // 10} [{25600 * (i % 10):8d}/300000 ({i % 10 * 8}%)] Data (t): 0.1{i:02d} Batch (t): 0.8{i:02d}, 320.1/s, 40.1/s/gpu LR: 0.00001{i:02d} Logit Scale: 14.3{i:02d} Contrastive_loss: {f(i)} ({v(i)}) Loss: {f(i)} ({v(i)})\n"
        for i in range(30)
    )
    + "2023-05-01,10:10:00 | INFO | Eval Epoch: 3 image_to_text_mean_rank: 12.1234\timage_to_text_R@1: 0.5123\tclip_val_loss: 1.2345\tepoch: 3.0000\tnum_samples: 5000.0000\n",
    30,
    (0, f(0)),
    (2, f(29)),
)
add(
    "accelerate-clm",
    "05/01/2024 10:00:00 - INFO - __main__ - ***** Running training *****\n05/01/2024 10:00:00 - INFO - __main__ -   Num examples = 2318\n05/01/2024 10:00:00 - INFO - __main__ -   Total optimization steps = 3\n"
    + "".join(f"\r {i}%|██        | {i}/300 [00:10<00:10,  1.2it/s]" for i in range(1, 100))
    + "".join(
        f"\n05/01/2024 10:0{e}:00 - INFO - __main__ - epoch {e}: perplexity: {20 - e}.12 eval_loss: {3.2 - e / 10:.3f}"
        for e in range(3)
    )
    + "\n",
    0,
    (None, None),
    (None, None),
    {"val_loss": (3, 3.0)},
)
add(
    "deepspeed-bing",
    "".join(
        f"[2024-05-01 10:00:{i:02d},123] [INFO] [logging.py:96:log_dist] [Rank 0] step={10 * i}, skipped=0, lr=[1e-05, 1e-05], mom=[(0.9, 0.95), (0.9, 0.95)]\n[2024-05-01 10:00:{i:02d},124] [INFO] [timer.py:260:stop] epoch=0/micro_step={10 * i}/global_step={10 * i}, RunningAvgSamplesPerSec=1.2{i:02d}, CurrSamplesPerSec=1.5, MemAllocated=20.1GB, MaxMemAllocated=30.0GB\n"
        for i in range(1, 31)
    ),
    30,
    (10, None),
    (300, None),
)
add(
    "pl-rich",
    "".join(
        f"Epoch {e}/4 ━━━━━━━━━━━━━━━━ {b}/100 0:00:{b // 10:02d} • 0:00:01 9.12it/s v_num: 1.000 train_loss: {f(e) + (100 - b) / 1000:.3f}\n"
        for e in range(5)
        for b in (50, 100)
    ),
    5,
    (0, round(f(0), 3)),
    (4, round(f(4), 3)),
)
add(
    "mxnet",
    "".join(
        "".join(
            f"INFO:root:Epoch[{e}] Batch [{100 * i}-{100 * i + 100}]\tSpeed: {1234 + i}.56 samples/sec\taccuracy=0.{500 + i}\n"
            for i in range(5)
        )
        + f"INFO:root:Epoch[{e}] Train-accuracy=0.7{e}\nINFO:root:Epoch[{e}] Time cost=12.3\nINFO:root:Epoch[{e}] Validation-accuracy=0.8{e}\n"
        for e in range(3)
    ),
    15,
    (100, None),
    (500, None),
)
add(
    "lgbm-cli",
    "".join(
        f"[LightGBM] [Info] Iteration:{i}, training binary_logloss : {f(i)}\n[LightGBM] [Info] Iteration:{i}, valid_1 binary_logloss : {v(i)}\n[LightGBM] [Info] 0.0{i} seconds elapsed, finished iteration {i}\n"
        for i in range(1, 31)
    ),
    30,
    (1, f(1)),
    (30, f(30)),
)
add(
    "ultra-nan",
    "".join(f"step {i} | loss: {f(i) if i < 20 else 'nan'} | lr: 1e-4\n" for i in range(30)),
    30,
    (0, f(0)),
    (29, float("nan")),
    events={"nan": 1},
)
add(
    "parlai",
    "".join(
        f"10:00:{i:02d} | time:{10 * i}s total_exs:{640 * i} total_steps:{10 * i} epochs:0.{i:02d}\n    clip  ctpb  ctps  exps  exs  gnorm  loss  lr  ppl  token_acc  total_train_updates\n       1  {1024 + i}  {2048 + i}  64.1  640  1.{i:02d}  {f(i)}  1e-05  {100 - i}.1  .3{i:02d}  {10 * i}\n\n"
        for i in range(1, 21)
    ),
    20,
    (10, f(1)),
    (200, f(20)),
)
add(
    "wandb-table-hydra",
    "[2024-05-01 10:00:00,123][__main__][INFO] - Instantiating model\n"
    + "".join(
        f"[2024-05-01 10:00:{i:02d},123][train][INFO] - step: {i}, loss: {f(i)}, lr: 0.001\n"
        for i in range(30)
    ),
    30,
    (0, f(0)),
    (29, f(29)),
)
