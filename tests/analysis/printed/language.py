# ruff: noqa: E501 (a template is a line of a log and reads as one)
"""Language models, pretrained and tuned: what their training programs print."""

from __future__ import annotations

from tests.analysis.printed import Printed, clock, falling, lines

HF_WARNINGS = (
    "Special tokens have been added in the vocabulary, make sure the associated word embeddings are fine-tuned or trained.",
    "Loading checkpoint shards: 100%|██████████| 4/4 [00:07<00:00,  1.80s/it]",
    "trainable params: 20,971,520 || all params: 6,759,387,136 || trainable%: 0.3102558",
    "/opt/conda/lib/python3.10/site-packages/torch/utils/checkpoint.py:429: UserWarning: torch.utils.checkpoint: please pass in use_reentrant=True",
    "  warnings.warn(",
)


def hf(row: str, at: int, total: int) -> str:
    """A dict as the Trainer prints it, glued behind its progress bar."""
    return f"{at * 100 // total:3d}%|{'█' * (at * 10 // total):10}| {at}/{total} [{at:02d}:00<05:00,  2.00s/it]{row}"


mlx_lm = Printed(
    "mlx-lm",
    "mlx_lm/tuner/trainer.py",
    lines(
        "Loading pretrained model",
        "Fetching 7 files: 100%|██████████| 7/7 [00:00<00:00, 52428.80it/s]",
        "Loading datasets",
        "Training",
        "Trainable parameters: 0.045% (3.408M/7615.617M)",
        "Starting training..., iters: 600",
        "Iter 1: Val loss 2.861, Val took 20.113s",
        *(
            "\n".join(
                [
                    f"Iter {10 * i}: Train loss {falling(i):.3f}, Learning Rate 1.000e-05, It/sec 0.{400 + i}, "
                    f"Tokens/sec {312 + i}.123, Trained Tokens {7421 * i}, Peak mem 16.5{i % 10} GB",
                    *(
                        [f"Iter {10 * i}: Val loss {falling(i) + 0.2:.3f}, Val took 19.5{i % 10}s"]
                        if i % 20 == 0
                        else []
                    ),
                    *(
                        [
                            f"Iter {10 * i}: Saved adapter weights to adapters/adapters.safetensors and "
                            f"adapters/{10 * i:07d}_adapters.safetensors."
                        ]
                        if i % 10 == 0
                        else []
                    ),
                ]
            )
            for i in range(1, 61)
        ),
        "Saved final weights to adapters/adapters.safetensors.",
        "Testing",
        "Test loss 1.702, Test ppl 5.485.",
    ),
    60,
    (10, round(falling(1), 3)),
    (600, round(falling(60), 3)),
    {"val_loss": (5, 1.702)},
    ("loss", "lr", "tok_per_sec"),
    events={"checkpoint": 7},
)

trl_sft = Printed(
    "trl-sft",
    "docs of TRL's SFTTrainer, Logged metrics; transformers' printer callback",
    lines(
        *HF_WARNINGS,
        *(
            hf(
                f"{{'loss': {falling(i)}, 'grad_norm': {1 + i % 5 / 10}, 'learning_rate': {2e-4 * (1 - i / 50):.6g}, 'entropy': 1.{100 + i}, "
                f"'num_tokens': {4096.0 * i}, 'mean_token_accuracy': 0.{500 + i}, 'epoch': {i / 50:.2f}}}",
                i,
                50,
            )
            for i in range(1, 51)
        ),
        "{'eval_loss': 1.9312, 'eval_runtime': 12.5, 'eval_samples_per_second': 8.0, 'eval_steps_per_second': 1.0, 'eval_entropy': 1.5, "
        "'eval_num_tokens': 204800.0, 'eval_mean_token_accuracy': 0.61, 'epoch': 1.0}",
        "{'train_runtime': 251.4, 'train_samples_per_second': 3.9, 'train_steps_per_second': 0.199, 'train_loss': 2.87, 'entropy': 1.2, 'epoch': 1.0}",
        "100%|██████████| 50/50 [04:11<00:00,  5.03s/it]",
    ),
    50,
    (None, falling(1)),
    (None, falling(50)),
    {"val_loss": (1, 1.9312), "eval_mean_token_accuracy": (1, 0.61)},
    ("lr", "grad_norm", "entropy", "mean_token_accuracy"),
    status="completed",
)

trl_dpo = Printed(
    "trl-dpo",
    "docs of TRL's DPOTrainer, Logged metrics",
    lines(
        *HF_WARNINGS,
        *(
            f"{{'loss': {falling(i, 0.69, 0.2)}, 'grad_norm': {3 + i % 5 / 10}, 'learning_rate': {5e-7 * (1 - i / 40):.6g}, "
            f"'rewards/chosen': {i / 100}, 'rewards/rejected': -{i / 50}, 'rewards/accuracies': 0.{500 + i}, 'rewards/margins': {i / 33:.4f}, "
            f"'logps/chosen': -{250 + i}.5, 'logps/rejected': -{270 + i}.5, 'logits/chosen': -2.5, 'logits/rejected': -2.4, 'epoch': {i / 40:.3f}}}"
            for i in range(1, 41)
        ),
        "{'eval_loss': 0.4011, 'eval_runtime': 30.2, 'eval_rewards/chosen': 0.3, 'eval_rewards/accuracies': 0.71, 'epoch': 1.0}",
    ),
    40,
    (None, falling(1, 0.69, 0.2)),
    (None, falling(40, 0.69, 0.2)),
    {"val_loss": (1, 0.4011)},
    ("rewards_chosen", "rewards_margins", "logps_rejected"),
)

trl_grpo = Printed(
    "trl-grpo",
    "docs of TRL's GRPOTrainer, Logged metrics",
    lines(
        *HF_WARNINGS,
        *(
            f"{{'loss': {falling(i, 0.05, 0.0)}, 'grad_norm': {0.1 + i / 100:.3f}, 'learning_rate': 1e-06, 'num_tokens': {81920.0 * i}, "
            f"'completions/mean_length': {200 + i}.5, 'completions/clipped_ratio': 0.0, 'rewards/accuracy_reward/mean': 0.{300 + i}, "
            f"'reward': 0.{300 + i}, 'reward_std': 0.25, 'frac_reward_zero_std': 0.1, 'kl': 0.00{i % 9 + 1}, 'entropy': 0.4, "
            f"'clip_ratio/region_mean': 0.0, 'step_time': {40 + i % 3}.5, 'epoch': {i / 100:.2f}}}"
            for i in range(1, 31)
        ),
    ),
    30,
    (None, falling(1, 0.05, 0.0)),
    (None, falling(30, 0.05, 0.0)),
    {},
    ("reward", "kl", "completions_mean_length", "lr"),
)

trl_ppo = Printed(
    "trl-ppo",
    "docs of TRL's PPOTrainer, Logged metrics",
    lines(
        *(
            f"{{'eps': {i % 7}, 'objective/kl': {i / 10}, 'objective/entropy': {30 - i / 10:.2f}, 'objective/rlhf_reward': {i / 20}, 'objective/scores': {i / 15:.3f}, "
            f"'policy/approxkl_avg': 0.01, 'policy/clipfrac_avg': 0.02, 'loss/policy_avg': -0.0{10 + i}, 'loss/value_avg': 0.{100 + i}, "
            f"'val/clipfrac_avg': 0.1, 'val/ratio': 1.0, 'lr': {3e-6 * (1 - i / 30):.4g}, 'episode': {64 * i}, 'epoch': {i / 30:.2f}}}"
            for i in range(1, 31)
        ),
    ),
    30,
    (None, None),
    (None, None),
    {},
    ("lr", "objective_kl", "loss_policy_avg"),
)

swift = Printed(
    "ms-swift",
    "swift/trainers/callback.py: the progress callback of ms-swift",
    lines(
        "[INFO:swift] Global seed set to 42",
        "[INFO:swift] model_parameter_info: PeftModelForCausalLM: 7635.8016M Params (20.1851M Trainable [0.2643%]), 0.0019M Buffers.",
        *(
            hf(
                f"{{'loss': {falling(i)}, 'token_acc': 0.{500 + i}, 'grad_norm': {1 + i % 5 / 10}, 'learning_rate': {1e-4 * i / 40:.6g}, "
                f"'memory(GiB)': 17.{10 + i}, 'train_speed(iter/s)': 0.{200 + i}, 'epoch': {i / 40:.2f}, 'global_step/max_steps': '{5 * i}/200', "
                f"'percentage': '{5 * i / 2:.2f}%', 'elapsed_time': '{i}m 3s', 'remaining_time': '{40 - i}m 1s'}}",
                5 * i,
                200,
            )
            for i in range(1, 41)
        ),
        "[INFO:swift] Saving model checkpoint to /home/user/output/v0-20240501/checkpoint-200",
        "[INFO:swift] last_model_checkpoint: /home/user/output/v0-20240501/checkpoint-200",
    ),
    40,
    (5, falling(1)),
    (200, falling(40)),
    {},
    ("lr", "grad_norm", "token_acc"),
    200,
    events={"checkpoint": 1},
    status="completed",
)

litgpt_pretrain = Printed(
    "litgpt-pretrain",
    "litgpt/pretrain.py",
    lines(
        "Seed set to 42",
        "Time to instantiate model: 0.05 seconds.",
        "Total parameters: 1,100,048,384",
        "Validating ...",
        "Measured TFLOPs: 239.33",
        *(
            f"Epoch 1 | iter {16 * i} step {i} | loss train: {falling(i):.3f}, val: {'n/a' if i < 20 else '3.512'} | "
            f"iter time: {400 + i}.12 ms (step) remaining time: 0:{59 - i:02d}:11"
            for i in range(1, 41)
        ),
        "Validating ...",
        "iter 640: val loss 3.4021, val time: 5123.12 ms",
        "Saving checkpoint to 'out/pretrain/step-00000040/lit_model.pth'",
    ),
    40,
    (1, round(falling(1), 3)),
    (40, round(falling(40), 3)),
    {"val_loss": (22, 3.4021)},
    events={"checkpoint": 1},
)

litgpt_finetune = Printed(
    "litgpt-finetune",
    "litgpt/finetune/lora.py",
    lines(
        "Number of trainable parameters: 4,194,304",
        "Number of non-trainable parameters: 6,738,415,616",
        "The longest sequence length in the train data is 512, the model's maximum sequence length is 512 and context length is 4096",
        "Verifying settings ...",
        *(
            f"Epoch {1 + i // 30} | iter {i} step {i // 4} | loss train: {falling(i):.3f}, val: n/a | iter time: {300 + i % 7}.42 ms"
            + (" (step)" if i % 4 == 0 else "")
            for i in range(1, 61)
        ),
        "Validating ...",
        "iter 60: val loss 1.6112, val time: 4123.12 ms",
    ),
    60,
    (0, round(falling(1), 3)),
    (15, round(falling(60), 3)),
    {"val_loss": (1, 1.6112)},
)

olmo = Printed(
    "olmo",
    "olmo/train.py: log_metrics_to_console; rich-less console format of olmo/util.py",
    lines(
        "2024-03-01 10:00:00.123\tnode01:0\tolmo.util:163\tINFO\tLogging initialised",
        "2024-03-01 10:00:01.123\tnode01:0\t__main__:75\tINFO\tConfiguration:",
        "2024-03-01 10:00:02.123\tnode01:0\t__main__:158\tINFO\tTotal number of parameters: 1,176,764,416",
        "2024-03-01 10:00:03.123\tnode01:0\tolmo.train:870\tINFO\tPre-train system metrics\n    System/Peak GPU Memory (MB)=4,713",
        *(
            f"2024-03-01 {clock(36004 + i)}.123\tnode01:0\tolmo.train:816\tINFO\t[step={i + 1}/1000,epoch=0]\n"
            f"    optim/total_grad_norm={1 + i % 7 / 10:.4f}\n    train/CrossEntropyLoss={falling(i)}\n    train/Perplexity={9000 / (i + 1):.1f}\n"
            f"    throughput/total_tokens={4194304 * (i + 1):,}\n    throughput/device/tokens_per_second={5000 + i}.5\n"
            f"    System/Peak GPU Memory (MB)=37,{100 + i}"
            for i in range(60)
        ),
        "2024-03-01 10:02:03.123\tnode01:0\tolmo.train:1000\tINFO\tSaving checkpoint...",
        "2024-03-01 10:02:04.123\tnode01:0\tolmo.train:1000\tINFO\tCheckpoint saved to /out/step60-unsharded",
        "2024-03-01 10:02:05.123\tnode01:0\tolmo.train:900\tINFO\t[eval_step=1/10]",
        "2024-03-01 10:02:09.123\tnode01:0\tolmo.train:910\tINFO\tall-small-ppl-validation\n"
        "    eval/c4_en-validation/CrossEntropyLoss=4.123\n    eval/c4_en-validation/Perplexity=61.7",
        "2024-03-01 10:03:05.123\tnode01:0\tolmo.train:1200\tINFO\tTraining complete",
    ),
    60,
    (1, falling(0)),
    (60, falling(59)),
    {"eval_c4_en_validation_CrossEntropyLoss": (1, 4.123)},
    ("grad_norm", "tok_per_sec"),
    total=1000,
    status="completed",
)

olmo_core = Printed(
    "olmo-core",
    "olmo_core/train/callbacks/console_logger.py",
    lines(
        "2025-01-05 10:00:00.123\tnode01:0\tolmo_core.train.trainer:600\tINFO\tTraining for 200 steps",
        *(
            f"2025-01-05 {clock(36004 + i)}.123\tnode01:0\tolmo_core.train.callbacks.console_logger:41\tINFO\t[step={i + 1}/200,epoch=1]\n"
            f"    optim/LR (group 0)={1e-5 * (i + 1):.4g}\n    optim/total grad norm={1 + i % 7 / 10:.4f}\n    train/CE loss={falling(i)}\n    train/PPL={9000 / (i + 1):.1f}\n"
            f"    throughput/device/TPS={5000 + i}\n    throughput/device/MFU=4{i % 10}.5"
            for i in range(40)
        ),
    ),
    40,
    (1, falling(0)),
    (40, falling(39)),
    {},
    ("grad_norm",),
    total=200,
)

neox = Printed(
    "gpt-neox",
    "megatron/training.py and megatron/logging.py of GPT-NeoX",
    lines(
        "> building GPT2BPETokenizer tokenizer ...",
        " > padded vocab (size: 50257) with 47 dummy tokens (new size: 50304)",
        "> setting tensorboard ...",
        " > number of parameters on model parallel rank 0: 162322944",
        "done with setups ...",
        "time (ms) | model and optimizer: 1234.56 | train/valid/test data iterators: 345.67",
        "training ...",
        "[2024-03-01 10:00:05,123] [INFO] [checkpointing.py:405:forward] Activation Checkpointing Information",
        *(
            f"[2024-03-01 {clock(36006 + 5 * i)},123] [INFO] [logging.py:60:log_dist] [Rank 0] step={10 * i}, skipped=0, lr=[{6e-4 * i / 40:.6g}, {6e-4 * i / 40:.6g}], mom=[[0.9, 0.95], [0.9, 0.95]]\n"
            f"steps: {10 * i} loss: {falling(i):.4f} iter time (s): 0.{500 + i} samples/sec: 63.{i % 10}\n"
            f" samples/sec: 63.{i % 10}00 | iteration {10 * i:8d}/  320000 | elapsed time per iteration (ms): 5{i % 10}0.1 | "
            f"learning rate: {6e-4 * i / 40:.3E} | approx flops per GPU: 99.8TFLOPS | lm_loss: {falling(i):.6E} | loss scale: 4096.0 | "
            "number of skipped iterations:   0 | number of nan iterations:   0 |"
            for i in range(1, 41)
        ),
        "----------------------------------------------------------------------------------------------",
        " validation results at iteration 400 | lm_loss value: 3.512345E+00 | lm_loss_ppl value: 3.352680E+01 | ",
        "----------------------------------------------------------------------------------------------",
    ),
    40,
    (10, falling(1)),
    (400, falling(40)),
    {"val_loss": (1, 3.512345)},
    ("lr",),
)

nemo1 = Printed(
    "nemo-bar",
    "NeMo 1's progress bar over Lightning's tqdm bar",
    "[NeMo I 2024-03-01 10:00:00 megatron_gpt_model:1214] Setting up train dataloader with len(len(self._train_ds)): 3200\n"
    + "".join(
        f"\rEpoch 0: :  {i}%|{'#' * (i // 10):10}| {i}/100 [00:{i % 60:02d}<01:00, v_num=0, reduced_train_loss={falling(i):.3f}, global_step={i - 1}.0, "
        f"consumed_samples={32 * i}.0, train_step_timing in s=0.5{i % 10}]"
        for i in range(1, 101)
    )
    + "\n`Trainer.fit` stopped: `max_steps=100` reached.\n",
    1,
    (0, round(falling(100), 3)),
    (0, round(falling(100), 3)),
    status="completed",
)

nemo2 = Printed(
    "nemo-lines",
    "nemo/lightning/pytorch/callbacks/progress_printer.py",
    lines(
        "[NeMo W 2024-10-01 10:00:00 nemo_logging:405] Deprecated parameters to drop from wandb config",
        "[NeMo I 2024-10-01 10:00:01 nemo_logging:393] Rank 0 has data parallel group : [0]",
        *(
            f"Training epoch 0, iteration {i}/99 | lr: {3e-4 * (i + 1) / 100:.3e} | global_batch_size: 32 | global_step: {i} | "
            f"reduced_train_loss: {falling(i)} | train_step_timing in s: 1.2{i % 10} | consumed_samples: {32 * (i + 1)}"
            for i in range(100)
        ),
        "`Trainer.fit` stopped: `max_steps=100` reached.",
    ),
    100,
    (0, falling(0)),
    (99, falling(99)),
    {},
    ("lr", "dt_ms"),
    status="completed",
)

verl = Printed(
    "verl",
    "verl/utils/logger/aggregate_logger.py: concat_dict_to_str",
    lines(
        "2025-03-01 10:00:00,123\tINFO worker.py:1841 -- Started a local Ray instance.",
        "(TaskRunner pid=4121) {'actor_rollout_ref': {'actor': {'ppo_mini_batch_size': 256, 'optim': {'lr': 1e-06}}}}",
        "(WorkerDict pid=4622) Qwen2ForCausalLM contains 494.03M parameters",
        "(TaskRunner pid=4121) step:0 - val-core/openai/gsm8k/reward/mean@1:0.125",
        *(
            f"(TaskRunner pid=4121) step:{i} - global_seqlen/min:{61000 + i} - actor/entropy:0.{400 + i} - actor/kl_loss:0.00{i % 9 + 1} - "
            f"actor/pg_loss:{falling(i, 0.1, 0.0):.5f} - actor/grad_norm:{0.1 + i / 100:.3f} - perf/mfu/actor:0.4{i % 10} - actor/lr:1e-06 - critic/score/mean:0.{300 + i} - "
            f"critic/rewards/mean:0.{300 + i} - response_length/mean:{200 + i}.5 - timing_s/step:{60 + i % 5}.25 - perf/throughput:{1800 + i}.5"
            + (f" - val-core/openai/gsm8k/reward/mean@1:0.{300 + i}" if i % 5 == 0 else "")
            for i in range(1, 31)
        ),
        "(TaskRunner pid=4121) Training Progress: 100%|██████████| 30/30 [30:00<00:00, 60.0s/it]",
    ),
    30,
    (1, None),
    (30, None),
    {"val_core_openai_gsm8k_reward_mean_1": (7, 0.125)},
    ("actor_pg_loss", "grad_norm", "lr"),
)

openrlhf = Printed(
    "openrlhf",
    "openrlhf/trainer/sft_trainer.py and ppo_trainer.py",
    "[2024-05-01 10:00:00,123] [INFO] [config.py:1000:print]   zero_enabled ................. True\n"
    + "".join(
        f"\rTrain epoch:   0%|          | 0/2 [00:00<?, ?it/s]\rTrain step of epoch {epoch}: {i}%|{'█' * (i // 10):10}| {i}/100 [00:{i % 60:02d}<01:00,  1.10s/it, "
        f"gpt_loss={falling(100 * epoch + i)}, loss_mean={falling(100 * epoch + i) + 0.1:.4f}, lr=1e-6]"
        for epoch in range(2)
        for i in range(1, 101)
    )
    + "\n",
    2,
    (0, falling(100)),
    (1, falling(200)),
    {},
    ("loss_avg", "lr"),
)

torchtune_bar = Printed(
    "torchtune-metrics",
    "torchtune/training/metric_logging.py: DiskLogger",
    lines(
        "INFO:torchtune.utils._logging:Running LoRAFinetuneRecipeSingleDevice with resolved config:",
        "INFO:torchtune.utils._logging:Model is initialized with precision torch.bfloat16.",
        *(
            f"Step {i} | loss:{falling(i)} lr:{2e-5 * i / 40:.6g} tokens_per_second_per_gpu:{405 + i}.04 peak_memory_active:20.5"
            for i in range(1, 41)
        ),
    ),
    40,
    (1, falling(1)),
    (40, falling(40)),
    {},
    ("lr",),
)

modded = Printed(
    "modded-nanogpt",
    "train_gpt.py of the records of 2025: the training loss is not printed",
    lines(
        "import os",
        "import sys",
        "with open(sys.argv[0]) as f:",
        "    code = f.read()",
        "=" * 100,
        "Running Python 3.12.7",
        "Running PyTorch 2.9.0.dev20250718+cu126 compiled for CUDA 12.6",
        "|   0  NVIDIA H100 80GB HBM3          On  |   00000000:04:00.0 Off |                    0 |",
        "| N/A   37C    P0            120W /  700W |    1519MiB /  81559MiB |      0%      Default |",
        "=" * 100,
        *(
            f"step:{i}/1750 val_loss:{falling(i // 125)} train_time:{88 * i}ms step_avg:{'nan' if i == 0 else '88.12'}ms"
            if i % 125 == 0
            else f"step:{i}/1750 train_time:{88 * i}ms step_avg:88.{i % 100:02d}ms"
            for i in range(1751)
        ),
        "peak memory allocated: 31017 MiB reserved: 46318 MiB",
    ),
    1751 - 15,
    (1, None),
    (1749, None),
    {"val_loss": (15, min(falling(i) for i in range(15)))},
    total=1750,
    status="completed",
)

LOGS = (
    mlx_lm, trl_sft, trl_dpo, trl_grpo, trl_ppo, swift, litgpt_pretrain, litgpt_finetune, olmo, olmo_core, neox, nemo1, nemo2,
    verl, openrlhf, torchtune_bar, modded,
)  # fmt: skip
