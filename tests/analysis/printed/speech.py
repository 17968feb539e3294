# ruff: noqa: E501 (a template is a line of a log and reads as one)
"""Speech and translation: the toolkits of both fields."""

from __future__ import annotations

from tests.analysis.printed import Printed, clock, falling, lines

espnet = Printed(
    "espnet",
    "espnet2/train/trainer.py and reporter.py",
    lines(
        "# python3 -m espnet2.bin.asr_train --use_preprocessor true --max_epoch 3",
        "# Started at Mon May  1 10:00:00 UTC 2023",
        "[node1] 2023-05-01 10:00:01,123 (asr:523) INFO: Vocabulary size: 5000",
        "[node1] 2023-05-01 10:00:02,123 (abs_task:1270) INFO: Model structure:",
        "ESPnetASRModel(",
        "  (frontend): DefaultFrontend(",
        "Model summary:",
        "    Class Name: ESPnetASRModel",
        "    Total Number of model parameters: 116.15 M",
        *(
            "\n".join(
                [
                    f"[node1] 2023-05-01 {clock(36003 + 20 * epoch)},123 (trainer:310) INFO: {epoch}/3epoch started",
                    *(
                        f"[node1] 2023-05-01 {clock(36003 + 20 * epoch + i)},123 (trainer:762) INFO: {epoch}epoch:train:{100 * i - 99}-{100 * i}batch: iter_time=1.1{i:02d}e-04, forward_time=0.1{i:02d}, loss_ctc=8{i % 10}.1, "
                        f"loss_att=5{i % 10}.2, acc=0.3{i:02d}, loss={falling(10 * epoch + i, 90, 20):.3f}, backward_time=0.2, grad_norm=1{i % 10}.5, clip=100.000, loss_scale=1.0, optim_step_time=0.05, optim0_lr0={1e-6 * (10 * epoch + i):.3e}, train_time=1.2{i:02d}"
                        for i in range(1, 11)
                    ),
                    f"[node1] 2023-05-01 {clock(36003 + 20 * epoch + 15)},123 (trainer:364) INFO: {epoch}epoch results: [train] iter_time=1.1e-04, forward_time=0.1, loss_ctc=80.1, loss_att=50.2, acc=0.35, loss=60.1, time=12 minutes and 3.4 seconds, total_count=1000, gpu_max_cached_mem_GB=10.2, "
                    f"[valid] loss_ctc=70.1, cer_ctc=0.9, loss_att=40.2, acc=0.4, loss={50 - epoch}.25, time=10.1 seconds, total_count=50, gpu_max_cached_mem_GB=10.2",
                    f"[node1] 2023-05-01 {clock(36003 + 20 * epoch + 16)},123 (trainer:412) INFO: The best model has been updated: valid.acc",
                ]
            )
            for epoch in range(1, 4)
        ),
        "[node1] 2023-05-01 11:00:00,123 (trainer:458) INFO: The training was finished at 3 epochs ",
        "# Accounting: time=3601 threads=1",
        "# Ended (code 0) at Mon May  1 11:00:01 UTC 2023, elapsed time 3601 seconds",
    ),
    30,
    (100, round(falling(11, 90, 20), 3)),
    (1000, round(falling(40, 90, 20), 3)),
    {"val_loss": (3, 47.25)},
    ("loss_ctc", "loss_att", "acc", "lr", "grad_norm"),
    status="completed",
)

icefall = Printed(
    "icefall",
    "egs/librispeech/ASR/zipformer/train.py of k2-fsa/icefall",
    lines(
        "2023-05-01 10:00:00,123 INFO [train.py:1062] (0/2) Training started",
        "2023-05-01 10:00:00,124 INFO [train.py:1062] (1/2) Training started",
        "2023-05-01 10:00:01,123 INFO [train.py:1072] (0/2) {'best_train_loss': inf, 'best_valid_loss': inf, 'best_train_epoch': -1, 'batch_idx_train': 0, 'log_interval': 50, 'base_lr': 0.045}",
        "2023-05-01 10:00:02,123 INFO [train.py:1084] (0/2) Number of model parameters: 65549011",
        *(
            "\n".join(
                [
                    *(
                        f"2023-05-01 {clock(36003 + 20 * epoch + i)},12{rank} INFO [train.py:1016] ({rank}/2) Epoch {epoch}, batch {50 * i}, loss[loss={falling(10 * epoch + i) + rank / 100:.4g}, simple_loss=0.6{i:02d}, pruned_loss=0.5{i:02d}, over 7000.00 frames. ], "
                        f"tot_loss[loss={falling(10 * epoch + i) + 0.1:.4g}, simple_loss=0.6{i:02d}, pruned_loss=0.5{i:02d}, over 1{i}00000.00 frames. ], batch size: 4{i}, lr: 2.2{i}e-02, grad_scale: 1.0"
                        for i in range(10)
                        for rank in (0, 1)
                    ),
                    f"2023-05-01 {clock(36003 + 20 * epoch + 12)},123 INFO [train.py:1039] (0/2) Computing validation loss",
                    f"2023-05-01 {clock(36003 + 20 * epoch + 14)},123 INFO [train.py:1048] (0/2) Epoch {epoch}, validation: loss=0.5{9 - epoch}12, simple_loss=0.4, pruned_loss=0.3, over 1622729.00 frames. ",
                    f"2023-05-01 {clock(36003 + 20 * epoch + 15)},123 INFO [train.py:1049] (0/2) Maximum memory allocated so far is 12345MB",
                    f"2023-05-01 {clock(36003 + 20 * epoch + 15)},123 INFO [checkpoint.py:75] (0/2) Saving checkpoint to exp/epoch-{epoch}.pt",
                ]
            )
            for epoch in range(1, 4)
        ),
        "2023-05-01 11:00:00,123 INFO [train.py:1250] (0/2) Done!",
    ),
    60,
    (0, float(f"{falling(10):.4g}")),
    (450, float(f"{falling(39) + 0.01:.4g}")),
    {"val_loss": (3, 0.5612)},
    ("simple_loss", "pruned_loss", "lr"),
    events={"checkpoint": 3},
)

wenet = Printed(
    "wenet",
    "wenet/utils/train_utils.py: log_per_step",
    lines(
        "2022-05-01 10:00:00,123 INFO training on multiple gpus, this gpu 0",
        "the number of model params: 48,312,010",
        *(
            "\n".join(
                [
                    f"2022-05-01 {clock(36003 + 20 * epoch)},123 INFO Epoch {epoch} TRAIN info lr 8e-08",
                    *(
                        f"2022-05-01 {clock(36003 + 20 * epoch + i)},123 DEBUG TRAIN Batch {epoch}/{100 * i} loss {falling(10 * epoch + i, 300, 50):.6f} loss_att 1{i}0.12 loss_ctc 2{i}0.12 lr {1e-7 * (10 * epoch + i):.8f} rank 0"
                        for i in range(10)
                    ),
                    f"2022-05-01 {clock(36003 + 20 * epoch + 12)},123 DEBUG CV Batch {epoch}/0 loss 4{9 - epoch}.612 loss_att 40.1 loss_ctc 50.2 history loss 4{9 - epoch}.612 rank 0",
                    f"2022-05-01 {clock(36003 + 20 * epoch + 14)},123 INFO Epoch {epoch} CV info cv_loss 4{9 - epoch}.512",
                    f"2022-05-01 {clock(36003 + 20 * epoch + 15)},123 INFO Checkpoint: save to checkpoint exp/conformer/{epoch}.pt",
                ]
            )
            for epoch in range(3)
        ),
    ),
    30,
    (0, round(falling(0, 300, 50), 6)),
    (900, round(falling(29, 300, 50), 6)),
    {},
    ("loss_att", "loss_ctc", "lr"),
    events={"checkpoint": 3},
)

speechbrain = Printed(
    "speechbrain",
    "speechbrain/utils/train_logger.py: FileTrainLogger, as train_log.txt and on stdout",
    lines(
        "speechbrain.core - Info: auto_mix_prec arg from hparam file is used",
        "speechbrain.core - 71.5M trainable parameters in ASR",
        *(
            "".join(
                f"\r{i}%|{'█' * (i // 10):10}| {i}/100 [00:{i % 60:02d}<01:00,  2.10it/s, train_loss={falling(epoch):.3f}]"
                for i in range(0, 101, 20)
            )
            + f"\nspeechbrain.utils.train_logger - epoch: {epoch}, lr: 1.00e-04, steps: {100 * epoch}, optimizer: Adam - train loss: {falling(epoch):.2e} - valid loss: {falling(epoch) + 0.1:.2e}, valid ACC: 2.{10 + epoch}e-01, valid WER: 9.{99 - epoch}e+01"
            + f"\nspeechbrain.utils.checkpoints - Saved an end-of-epoch checkpoint in results/transformer/1234/save/CKPT+2022-05-01+10-{epoch:02d}-00+00"
            for epoch in range(1, 11)
        ),
        "speechbrain.utils.train_logger - Epoch loaded: 10 - test loss: 3.00e+00, test ACC: 3.1e-01, test WER: 8.1e+01",
    ),
    10,
    (1, 0),
    (10, 0),
)

flair = Printed(
    "flair",
    "flair/trainers/trainer.py",
    lines(
        "2023-05-01 10:00:00,123 ----------------------------------------------------------------------------------------------------",
        '2023-05-01 10:00:00,124 Model: "SequenceTagger(',
        "2023-05-01 10:00:00,124 Training Params:",
        '2023-05-01 10:00:00,124  - learning_rate: "0.1" ',
        '2023-05-01 10:00:00,124  - mini_batch_size: "32"',
        '2023-05-01 10:00:00,124  - max_epochs: "5"',
        *(
            "\n".join(
                [
                    *(
                        f"2023-05-01 {clock(36003 + 20 * (epoch - 1) + i)},123 epoch {epoch} - iter {46 * i}/469 - loss {falling(10 * epoch + i):.8f} - time (sec): {2 * i}.12 - samples/sec: {2100 + i}.12 - lr: 0.100000 - momentum: 0.000000"
                        for i in range(1, 11)
                    ),
                    "2023-05-01 10:02:00,123 ----------------------------------------------------------------------------------------------------",
                    f"2023-05-01 10:02:00,124 EPOCH {epoch} done: loss 1.2{epoch:02d}4 - lr: 0.100000",
                    f"2023-05-01 10:02:09,124 DEV : loss 0.4{9 - epoch}12 - f1-score (micro avg)  0.8{epoch:02d}1",
                    "2023-05-01 10:02:09,125  - 0 epochs without improvement",
                    "2023-05-01 10:02:09,126 saving best model",
                ]
            )
            for epoch in range(1, 6)
        ),
        "2023-05-01 10:03:00,123 Testing using best model ...",
        "2023-05-01 10:03:09,123 ",
        "Results:",
        "- F-score (micro) 0.8912",
        "- F-score (macro) 0.8812",
        "- Accuracy 0.8212",
    ),
    50,
    (46, round(falling(11), 8)),
    (4 * 469 + 460, round(falling(60), 8)),
    {"val_loss": (5, 0.4412)},
    ("lr",),
    events={"checkpoint": 5},
)

opennmt = Printed(
    "opennmt-py",
    "onmt/utils/statistics.py and onmt/trainer.py",
    lines(
        "[2023-05-01 10:00:00,123 INFO] Building model...",
        "[2023-05-01 10:00:01,123 INFO] * number of parameters: 93326084",
        "[2023-05-01 10:00:01,223 INFO] Starting training on GPU: [0]",
        "[2023-05-01 10:00:01,323 INFO] Start training loop and validate every 1000 steps...",
        *(
            f"[2023-05-01 {clock(36003 + i)},123 INFO] Step {50 * i}/100000; acc: {5 + i}.1; ppl: {12345 / i:.1f}; xent: {falling(i):.1f}; lr: 0.0{1000 + i}; sents: {3100 + i}; bsz: 2401/2400/12; {8123 + i}/{8034 + i} tok/s; {12 * i:6d} sec;"
            + (
                f"\n[2023-05-01 10:05:00,123 INFO] valid stats calculation\n                           took: 2.1 s.\n[2023-05-01 10:05:01,123 INFO] Train perplexity: 55.1\n[2023-05-01 10:05:01,124 INFO] Train accuracy: 30.1\n[2023-05-01 10:05:01,125 INFO] Sentences processed: 12345\n"
                f"[2023-05-01 10:05:01,126 INFO] Validation perplexity: 4{9 - i // 20}.123\n[2023-05-01 10:05:01,127 INFO] Validation accuracy: 3{i // 20}.12\n[2023-05-01 10:05:02,127 INFO] Saving checkpoint run/model_step_{50 * i}.pt"
                if i % 20 == 0
                else ""
            )
            for i in range(1, 61)
        ),
    ),
    60,
    (50, round(falling(1), 1)),
    (3000, round(falling(60), 1)),
    {},
    ("lr", "acc", "ppl"),
    total=100000,
    events={"checkpoint": 3},
)

marian = Printed(
    "marian",
    "marian/src/training/scheduler.h",
    lines(
        "[2023-05-01 10:00:00] [marian] Marian v1.12.0 65bf82ff 2023-02-21 09:56:29 -0800",
        "[2023-05-01 10:00:00] [config] after-epochs: 10",
        "[2023-05-01 10:00:00] [config] learn-rate: 0.0003",
        "[2023-05-01 10:00:00] [config] cost-type: ce-mean-words",
        "[2023-05-01 10:00:03] Training started",
        *(
            f"[2023-05-01 {clock(36003 + i)}] Ep. {1 + i // 20} : Up. {1000 * i} : Sen. {123456 * (i % 20 + 1):,} : Cost {falling(i):.8f} * {12345678 + i:,} after {1234567 * i:,} : Time {51 + i % 3}.12s : {23456 + i}.12 words/s : gNorm {0.5 + i / 100:.4f} : L.r. {3e-4 * i / 60:.4e}"
            + (
                f"\n[2023-05-01 10:05:00] Saving model weights and runtime parameters to model.npz.best-cross-entropy.npz\n[2023-05-01 10:05:00] [valid] Ep. {1 + i // 20} : Up. {1000 * i} : cross-entropy : 1{9 - i // 10}.5123 : new best\n[2023-05-01 10:05:09] [valid] Ep. {1 + i // 20} : Up. {1000 * i} : bleu : 2{i // 10}.12 : new best"
                if i % 10 == 0
                else ""
            )
            for i in range(1, 61)
        ),
        "[2023-05-01 10:10:00] Training finished",
    ),
    60,
    (1000, falling(1)),
    (60000, falling(60)),
    {},
    ("lr", "grad_norm", "tok_per_sec"),
    status="completed",
)

sockeye = Printed(
    "sockeye",
    "sockeye/training.py and log of speedometer",
    lines(
        "[2023-05-01:10:00:00:INFO:sockeye.utils:log_sockeye_version] Sockeye: 3.1.34, commit unknown",
        *(
            f"[2023-05-01:{clock(36003 + i)}:INFO:sockeye.training:__call__] Epoch[0] Batch [{50 * i}]\tSpeed: {2200 + i}.12 samples/sec {54321 + i}.12 tokens/sec 3.1{i:02d} updates/sec\tperplexity={9000 / i:.3f}"
            + (
                f"\n[2023-05-01:10:05:00:INFO:sockeye.training:_create_checkpoint] Checkpoint [{i // 20}]\tUpdates={50 * i} Epoch=0 Samples=12345 Time-cost=123.1 Updates/sec=3.1\n[2023-05-01:10:05:00:INFO:sockeye.training:_create_checkpoint] Checkpoint [{i // 20}]\tTrain-perplexity=55.12\n[2023-05-01:10:05:09:INFO:sockeye.training:_create_checkpoint] Checkpoint [{i // 20}]\tValidation-perplexity=4{9 - i // 20}.123"
                if i % 20 == 0
                else ""
            )
            for i in range(1, 61)
        ),
    ),
    60,
    (50, None),
    (3000, None),
    {},
    ("tok_per_sec", "perplexity"),
)

joeynmt = Printed(
    "joeynmt",
    "joeynmt/training.py",
    lines(
        "2023-05-01 10:00:00,123 - INFO - joeynmt.helpers -                       cfg.training.learning_rate : 0.0002",
        "2023-05-01 10:00:00,124 - INFO - joeynmt.model - Total params: 19302144",
        "2023-05-01 10:00:01,124 - INFO - joeynmt.training - EPOCH 1",
        *(
            f"2023-05-01 {clock(36003 + i)},123 - INFO - joeynmt.training - Epoch {1 + i // 30:3d}, Step: {100 * i:8d}, Batch Loss: {falling(i):12.6f}, Batch Acc: 0.{100 + i}, Tokens per Sec: {5432 + i:8d}, Lr: 0.000{300 - i}"
            + (
                f"\n2023-05-01 10:05:00,123 - INFO - joeynmt.prediction - Predicting 1000 example(s)... (Greedy decoding with min_output_length=1)\n2023-05-01 10:05:09,123 - INFO - joeynmt.prediction - Evaluation result (greedy): bleu:   {i // 10}.12, loss:   3.{99 - i}, ppl:  30.12, acc:   0.41, generation: 12.1234[sec], evaluation: 0.1234[sec]\n2023-05-01 10:05:09,124 - INFO - joeynmt.training - Hooray! New best validation result [bleu]!\n2023-05-01 10:05:10,124 - INFO - joeynmt.helpers - Saved checkpoint to models/{100 * i}.ckpt"
                if i % 10 == 0
                else ""
            )
            + (
                f"\n2023-05-01 10:06:00,123 - INFO - joeynmt.training - Epoch {1 + i // 30:3d}, total training loss: 1234{i}.12, num. of seqs: 12345, num. of tokens: 1234567, 123.12[sec]"
                if i % 30 == 29
                else ""
            )
            for i in range(1, 61)
        ),
    ),
    60,
    (100, falling(1)),
    (6000, falling(60)),
    {"val_loss": (6, 3.39)},
    ("lr", "tok_per_sec"),
)

tacotron2 = Printed(
    "tacotron2",
    "train.py of NVIDIA/tacotron2",
    lines(
        "FP16 Run: False",
        "Dynamic Loss Scaling: True",
        "Distributed Run: False",
        "cuDNN Enabled: True",
        "Epoch: 0",
        *(
            f"Train loss {i} {falling(i):.6f} Grad Norm {1 + i % 7 / 10:.6f} 1.{10 + i % 80}s/it"
            + (
                f"\nValidation loss {i}: {0.9 - i / 1000:9f}  \nSaving model and optimizer state at iteration {i} to outdir/checkpoint_{i}"
                if i % 50 == 0 and i
                else ""
            )
            for i in range(121)
        ),
    ),
    121,
    (0, falling(0)),
    (120, falling(120)),
    {"val_loss": (2, 0.8)},
    ("grad_norm", "dt_ms"),
    events={"checkpoint": 2},
)

hifigan = Printed(
    "hifigan",
    "train.py of jik876/hifi-gan",
    lines(
        "checkpoints directory :  cp_hifigan",
        "Epoch: 1",
        *(
            f"Steps : {5 * i:d}, Gen Loss Total : {falling(i, 90, 20):4.3f}, Mel-Spec. Error : {1.8 - i / 100:4.3f}, s/b : {0.31 + i % 3 / 100:4.3f}"
            for i in range(60)
        ),
        "Time taken for epoch 1 is 123 sec",
        "",
    ),
    60,
    (0, None),
    (295, None),
)

LOGS = (espnet, icefall, wenet, flair, opennmt, marian, sockeye, joeynmt, tacotron2, hifigan)
