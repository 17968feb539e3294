# ruff: noqa: E501 (a template is a line of a log and reads as one)
"""Classic libraries, boosters, tables and reinforcement learning: short lines, boxes, columns under a heading."""

from __future__ import annotations

from tests.analysis.printed import Printed, clock, falling, lines

tensorflow1 = Printed(
    "tensorflow-estimator",
    "tensorflow_estimator/python/estimator: basic_session_run_hooks.py and estimator.py",
    lines(
        "INFO:tensorflow:Using config: {'_model_dir': '/tmp/model', '_tf_random_seed': None, '_save_summary_steps': 100}",
        "INFO:tensorflow:Calling model_fn.",
        "INFO:tensorflow:Done calling model_fn.",
        "INFO:tensorflow:Create CheckpointSaverHook.",
        "INFO:tensorflow:Graph was finalized.",
        "INFO:tensorflow:Running local_init_op.",
        "INFO:tensorflow:Done running local_init_op.",
        "INFO:tensorflow:Saving checkpoints for 0 into /tmp/model/model.ckpt.",
        "INFO:tensorflow:loss = 9.5, step = 0",
        *(
            f"INFO:tensorflow:global_step/sec: 18.{500 + i}\nINFO:tensorflow:loss = {falling(i)}, step = {100 * i} (5.4{i:02d} sec)"
            for i in range(1, 50)
        ),
        "INFO:tensorflow:Saving checkpoints for 5000 into /tmp/model/model.ckpt.",
        "INFO:tensorflow:Calling model_fn.",
        "INFO:tensorflow:Starting evaluation at 2019-05-01-10:05:00",
        "INFO:tensorflow:Restoring parameters from /tmp/model/model.ckpt-5000",
        "INFO:tensorflow:Evaluation [10/100]",
        "INFO:tensorflow:Evaluation [20/100]",
        "INFO:tensorflow:Finished evaluation at 2019-05-01-10:05:10",
        "INFO:tensorflow:Saving dict for global step 5000: accuracy = 0.8123, global_step = 5000, loss = 2.1234",
        "INFO:tensorflow:Saving 'checkpoint_path' summary for global step 5000: /tmp/model/model.ckpt-5000",
        "INFO:tensorflow:Loss for final step: 2.0123.",
    ),
    50,
    (0, 9.5),
    (4900, falling(49)),
    {"val_loss": (1, 2.1234)},
    events={"checkpoint": 2},
)

keras_guide = Printed(
    "keras-custom-loop",
    "Keras' guide to writing a training loop from scratch",
    lines(
        *(
            f"\nStart of epoch {epoch}\n"
            + "\n".join(
                f"Training loss (for one batch) at step {200 * i}: {falling(5 * epoch + i):.4f}\nSeen so far: {(200 * i + 1) * 64} samples"
                for i in range(5)
            )
            + f"\nTraining acc over epoch: 0.8{epoch}12\nValidation acc: 0.8{epoch}34\nTime taken: 6.3{epoch}s"
            for epoch in range(3)
        ),
    ),
    15,
    (0, falling(0)),
    (800, falling(14)),
    {"Validation_acc": (3, 0.8034)},
)

tf_tutorial = Printed(
    "tensorflow-tutorial",
    "TensorFlow's tutorial of neural machine translation with attention",
    lines(
        *(
            "\n".join(f"Epoch {epoch} Batch {100 * i} Loss {falling(10 * epoch + i):.4f}" for i in range(10))
            + f"\nEpoch {epoch} Loss {falling(10 * epoch + 5):.4f}\nTime taken for 1 epoch 35.{epoch}6 sec\n"
            for epoch in range(1, 6)
        ),
    ),
    50,
    (0, falling(10)),
    (900, falling(59)),
)

mindspore = Printed(
    "mindspore",
    "mindspore/train/callback: LossMonitor and TimeMonitor",
    lines(
        "[WARNING] ME(1234:140,MainProcess):2022-05-01-10:00:00.123.456 [mindspore/train/model.py:1077] For TimeMonitor callback",
        *(
            "\n".join(
                f"epoch: {epoch} step: {100 * i}, loss is {falling(10 * epoch + i)}" for i in range(1, 11)
            )
            + f"\nTrain epoch time: 1234{epoch}.678 ms, per step time: 12.34{epoch} ms"
            for epoch in range(1, 4)
        ),
    ),
    30,
    (100, falling(11)),
    (1000, falling(40)),
)

xgboost = Printed(
    "xgboost",
    "xgboost/callback.py: EvaluationMonitor",
    lines(
        "[10:00:00] WARNING: /workspace/src/learner.cc:627: ",
        'Parameters: { "silent" } might not be used.',
        *(
            f"[{i}]\ttrain-logloss:{falling(i, 0.69, 0.2):.5f}\teval-logloss:{falling(i, 0.7, 0.25):.5f}"
            for i in range(100)
        ),
    ),
    100,
    (0, round(falling(0, 0.69, 0.2), 5)),
    (99, round(falling(99, 0.69, 0.2), 5)),
)

lightgbm = Printed(
    "lightgbm",
    "lightgbm/callback.py: log_evaluation and early_stopping",
    lines(
        "[LightGBM] [Info] Number of positive: 3716, number of negative: 3284",
        "[LightGBM] [Warning] Auto-choosing row-wise multi-threading, the overhead of testing was 0.000512 seconds.",
        "You can set `force_row_wise=true` to remove the overhead.",
        "[LightGBM] [Info] Total Bins 6132",
        "[LightGBM] [Info] Number of data points in the train set: 7000, number of used features: 28",
        "[LightGBM] [Info] [binary:BoostFromScore]: pavg=0.530857 -> initscore=0.123586",
        "[LightGBM] [Info] Start training from score 0.123586",
        "Training until validation scores don't improve for 50 rounds",
        *(
            f"[{10 * i}]\ttraining's binary_logloss: {falling(i, 0.69, 0.2):.6f}\tvalid_1's binary_logloss: {falling(i, 0.7, 0.3):.6f}"
            for i in range(1, 21)
        ),
    ),
    20,
    (10, round(falling(1, 0.69, 0.2), 6)),
    (200, round(falling(20, 0.69, 0.2), 6)),
)

catboost = Printed(
    "catboost",
    "catboost/libs/logging: the console logger",
    lines(
        "Learning rate set to 0.05",
        *(
            f"{10 * i}:\tlearn: {falling(i, 0.69, 0.2):.7f}\ttest: {falling(i, 0.7, 0.3):.7f}\tbest: {falling(i, 0.7, 0.3):.7f} ({10 * i})\ttotal: {12 + 11 * i}ms\tremaining: {60 - i}s"
            for i in range(50)
        ),
        "Stopped by overfitting detector  (50 iterations wait)",
        "",
        "bestTest = 0.3011",
        "bestIteration = 441",
        "",
        "Shrink model to first 442 iterations.",
    ),
    50,
    (0, round(falling(0, 0.69, 0.2), 7)),
    (490, round(falling(49, 0.69, 0.2), 7)),
    {"val_loss": (50, min(round(falling(i, 0.7, 0.3), 7) for i in range(50)))},
)

sklearn_mlp = Printed(
    "sklearn-mlp",
    "sklearn/neural_network/_multilayer_perceptron.py",
    lines(
        *(f"Iteration {i}, loss = {falling(i):.8f}\nValidation score: 0.{800000 + i}" for i in range(1, 41)),
        "Validation score did not improve more than tol=0.000100 for 10 consecutive epochs. Stopping.",
    ),
    40,
    (1, falling(1)),
    (40, falling(40)),
    {"Validation_score": (40, 0.800001)},
)

sklearn_gb = Printed(
    "sklearn-gradient-boosting",
    "sklearn/ensemble/_gb.py: VerboseReporter",
    lines(
        "      Iter       Train Loss   Remaining Time ",
        *(f"{i:10d} {falling(i):16.4f} {30 - i / 4:15.2f}s" for i in [*range(1, 11), *range(20, 101, 10)]),
    ),
    19,
    (1, falling(1)),
    (100, falling(100)),
)

sb3 = Printed(
    "stable-baselines3",
    "stable_baselines3/common/logger.py: HumanOutputFormat",
    lines(
        "Using cuda device",
        "Wrapping the env with a `Monitor` wrapper",
        "Logging to ./logs/PPO_1",
        "---------------------------------",
        "| rollout/           |          |",
        "|    ep_len_mean     | 21.5     |",
        "|    ep_rew_mean     | 21.5     |",
        "| time/              |          |",
        "|    fps             | 1200     |",
        "|    iterations      | 1        |",
        "|    time_elapsed    | 1        |",
        "|    total_timesteps | 2048     |",
        "---------------------------------",
        *(
            "-----------------------------------------\n"
            f"| rollout/                |             |\n|    ep_len_mean          | {22 + i}.5        |\n|    ep_rew_mean          | {22 + i}.5        |\n| time/                   |             |\n"
            f"|    fps                  | {900 + i}         |\n|    iterations           | {i}           |\n|    time_elapsed         | {2 * i}           |\n|    total_timesteps      | {2048 * i}        |\n"
            f"| train/                  |             |\n|    approx_kl            | 0.0088{i:02d}    |\n|    clip_fraction        | 0.1         |\n|    entropy_loss         | -0.686      |\n|    explained_variance   | 0.00{i}      |\n"
            f"|    learning_rate        | 0.0003      |\n|    loss                 | {falling(i):<12}|\n|    n_updates            | {10 * i}          |\n|    policy_gradient_loss | -0.0152     |\n|    value_loss           | 55.{i}        |\n"
            "-----------------------------------------"
            for i in range(2, 9)
        ),
    ),
    7,
    (20, falling(2)),
    (80, falling(8)),
    {},
    ("lr", "value_loss"),
)

tianshou = Printed(
    "tianshou",
    "tianshou/trainer/base.py",
    "".join(
        "".join(
            f"\rEpoch #{epoch}: {at:3d}%|{'#' * (at // 10):10}| {at * 100}/10000 [00:{at % 60:02d}<00:10, 951.{at}it/s, env_step={10000 * (epoch - 1) + 100 * at}, gradient_step={1000 * (epoch - 1) + 10 * at}, len=200, loss={falling(epoch):.3f}, n/ep=0, n/st=10, rew=200.00]"
            for at in (1, 50, 100)
        )
        + f"\nEpoch #{epoch}: test_reward: {190 + epoch}.300000 ± 10.100000, best_reward: {190 + epoch}.300000 ± 10.100000 in #{epoch}\n"
        for epoch in range(1, 6)
    ),
    5,
    (1, round(falling(1), 3)),
    (5, round(falling(5), 3)),
)

spacy = Printed(
    "spacy",
    "spacy/training/loggers.py: console_logger_v3",
    lines(
        "ℹ Saving to output directory: output",
        "ℹ Using GPU: 0",
        "",
        "=========================== Initializing pipeline ===========================",
        "✔ Initialized pipeline",
        "",
        "============================= Training pipeline =============================",
        "ℹ Pipeline: ['tok2vec', 'ner']",
        "ℹ Initial learn rate: 0.001",
        "E    #       LOSS TOK2VEC  LOSS NER  ENTS_F  ENTS_P  ENTS_R  SCORE ",
        "---  ------  ------------  --------  ------  ------  ------  ------",
        *(
            f"{i // 5:3d}  {200 * i:6d}  {falling(i) * 9:12.2f}  {falling(i) * 20:8.2f}  {20 + i:6.2f}  {21 + i:6.2f}  {19 + i:6.2f}  {0.2 + i / 100:6.2f}"
            for i in range(30)
        ),
        "✔ Saved pipeline to output directory",
        "output/model-last",
    ),
    30,
    (0, None),
    (5800, None),
    {},
    ("LOSS_NER", "SCORE"),
)

mlperf = Printed(
    "mlperf",
    "mlperf_logging: the :::MLLOG lines of a submission",
    lines(
        ':::MLLOG {"namespace": "", "time_ms": 1650000000000, "event_type": "POINT_IN_TIME", "key": "global_batch_size", "value": 1536, "metadata": {"file": "train.py", "lineno": 100}}',
        ':::MLLOG {"namespace": "", "time_ms": 1650000000001, "event_type": "POINT_IN_TIME", "key": "opt_base_learning_rate", "value": 2e-05, "metadata": {"file": "train.py", "lineno": 101}}',
        ':::MLLOG {"namespace": "", "time_ms": 1650000000002, "event_type": "INTERVAL_START", "key": "run_start", "value": null, "metadata": {"file": "train.py", "lineno": 102}}',
        *(
            f':::MLLOG {{"namespace": "", "time_ms": {1650000001000 + 1000 * i}, "event_type": "POINT_IN_TIME", "key": "tracked_stats", "value": {{"throughput": 1{i % 10}.5, "reduced_train_loss": {falling(i)}}}, "metadata": {{"file": "callbacks.py", "lineno": 12, "step": {10 * i}}}}}'
            for i in range(1, 31)
        ),
        ':::MLLOG {"namespace": "", "time_ms": 1650000090000, "event_type": "POINT_IN_TIME", "key": "eval_accuracy", "value": 2.69, "metadata": {"file": "callbacks.py", "lineno": 13, "epoch_num": 300}}',
        ':::MLLOG {"namespace": "", "time_ms": 1650000090001, "event_type": "INTERVAL_END", "key": "run_stop", "value": null, "metadata": {"file": "callbacks.py", "lineno": 14, "status": "success"}}',
    ),
    30,
    (10, falling(1)),
    (300, falling(30)),
)

dllogger = Printed(
    "dllogger-json",
    "NVIDIA's DLLogger: its JSON stream backend",
    lines(
        'DLLL {"timestamp": "1614000000.123", "datetime": "2021-05-01 10:00:00.123456", "elapsedtime": "0.1", "type": "LOG", "step": "PARAMETER", "data": {"learning_rate": 0.001, "epochs": 2}}',
        *(
            f'DLLL {{"timestamp": "16140000{i:02d}.123", "datetime": "2021-05-01 {clock(36000 + i)}.123456", "elapsedtime": "{i}.1", "type": "LOG", "step": [0, {10 * i}], "data": {{"train_loss": {falling(i)}, "throughput": 1{i % 10}00.5, "lr": 0.001}}}}'
            for i in range(1, 41)
        ),
        'DLLL {"timestamp": "1614000099.123", "datetime": "2021-05-01 10:02:00.123456", "elapsedtime": "99.1", "type": "LOG", "step": [], "data": {"final_loss": 2.1}}',
    ),
    40,
    (10, falling(1)),
    (400, falling(40)),
    {},
    ("lr",),
)

nequip = Printed(
    "nequip",
    "nequip/train/trainer.py",
    lines(
        "Torch device: cuda",
        "Number of weights: 206648",
        "! Starting training ...",
        "",
        *(
            "training\n# Epoch batch         loss       loss_f        f_mae       f_rmse\n"
            + "\n".join(
                f"{epoch:7d} {i:5d} {falling(5 * epoch + i):12.3g} {falling(5 * epoch + i) / 2:12.3g} {0.1 + i / 100:12.3g} {0.2 + i / 100:12.3g}"
                for i in range(1, 6)
            )
            + "\n"
            for epoch in range(1, 5)
        ),
    ),
    20,
    (1, float(f"{falling(6):.3g}")),
    (5, float(f"{falling(25):.3g}")),
)

deepmd = Printed(
    "deepmd-lcurve",
    "deepmd/train/trainer.py: lcurve.out",
    lines(
        "#  step      rmse_val    rmse_trn    rmse_e_val  rmse_e_trn    rmse_f_val  rmse_f_trn         lr",
        *(
            f"{100 * i:7d}      {falling(i):.2e}    {falling(i):.2e}      1.2{i % 10}e-01    1.3{i % 10}e-01      8.1{i % 10}e-01    8.2{i % 10}e-01    {1e-3 * (1 - i / 100):.1e}"
            for i in range(60)
        ),
    ),
    60,
    (0, None),
    (5900, None),
    {},
    ("lr",),
)

LOGS = (
    tensorflow1, keras_guide, tf_tutorial, mindspore, xgboost, lightgbm, catboost, sklearn_mlp, sklearn_gb, sb3, tianshou, spacy,
    mlperf, dllogger, nequip, deepmd,
)  # fmt: skip
