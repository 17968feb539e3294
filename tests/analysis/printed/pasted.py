# ruff: noqa: E501 (a template is a line of a log and reads as one)
# fmt: off
"""Programs whose output people paste when they ask what it means: toolkits of every age and trade."""

from __future__ import annotations

from tests.analysis.printed import Printed, clock, falling, val_losses, validated

f, v, vl = falling, validated, val_losses
LOGS: list[Printed] = []


def add(
    name: str,
    read_in: str,
    text: str,
    records: int,
    first: tuple[int | None, float | None],
    last: tuple[int | None, float | None],
    evals: dict[str, tuple[int, float | None]] | None = None,
    columns: tuple[str, ...] = (),
    status: str = "unknown",
) -> None:
    LOGS.append(Printed(name, read_in, text, records, first, last, evals or {}, columns, status=status))


add("kaldi-nnet3", "nnet3/nnet-training.cc of Kaldi",
    "".join(f"LOG (nnet3-train[5.5]:PrintStatsForThisPhase():nnet-training.cc:428) Average objective function for 'output' for minibatches {10*i}-{10*i+9} is -{f(i)} over {25000+i} frames.\n" for i in range(30)),
    30, (9, -f(0)), (299, -f(29)))
add("kaldi-pybind", "the PyTorch recipes of Kaldi",
    "".join(f"2020-02-01 {clock(36000+10*i)},226 INFO [train.py:102] Process {i%10*100}/1000({i%10*10:.6f}%) global average objf: -{v(i)} over {6400.0*(i+1)} frames, current batch average objf: -{f(i)} over 6400 frames, epoch {i//10}\n" for i in range(30)),
    30, (0, -f(0)), (2900, -f(29)), columns=("loss_avg",))
add("turicreate", "the tables of Turi Create",
    "+--------------+--------------+--------------+\n| Iteration    | Loss         | Elapsed Time |\n+--------------+--------------+--------------+\n"+"".join(f"| {i:<12} | {f(i):<12} | {i+0.36:.2f}s        |\n" for i in range(1,11))+"+--------------+--------------+--------------+\n",
    10, (1, f(1)), (10, f(10)), columns=("total_time_min",))
add("darknet", "darknet's detector.c, version 3",
    "".join(f"Region 16 Avg IOU: 0.4858, Class: 0.0957, Obj: 0.0679, No Obj: 0.0023, .5R: 0.500000, .75R: 0.000000,  count: {1+i%3}\nRegion 23 Avg IOU: -nan, Class: -nan, Obj: -nan, No Obj: 0.0006, .5R: -nan, .75R: -nan,  count: 0\n{1000+i}: {f(i):.6f}, {v(i):.6f} avg, 0.001000 rate, {2+i%3/10:.6f} seconds, {64*(1000+i)} images\nLoaded: 0.000045 seconds\n" for i in range(30)),
    30, (1000, f(0)), (1029, f(29)), columns=("loss_avg", "lr", "dt_ms"))
add("baselines", "the tables of OpenAI's baselines",
    "".join(f"--------------------------------------\n| approxkl           | 0.0006{i} |\n| ep_rewmean         | nan           |\n| fps                | {142+i}           |\n| nupdates           | {700+i}           |\n| policy_loss        | -0.0118{i}  |\n| serial_timesteps   | {128*i}        |\n| total_timesteps    | {128*i}        |\n| value_loss         | {f(i)}     |\n--------------------------------------\n" for i in range(1,11)),
    10, (701, None), (710, None), columns=("policy_loss", "value_loss"))
add("sb3-evaluation", "EvalCallback of Stable-Baselines3",
    "".join(f"-----------------------------------------\n| time/                   |             |\n|    iterations           | {i}           |\n|    total_timesteps      | {2048*i}       |\n| train/                  |             |\n|    loss                 | {f(i)}        |\n|    n_updates            | {10*i}          |\n-----------------------------------------\nEval num_timesteps={2048*i}, episode_reward=-{300-i}.73 +/- 132.72\nEpisode length: 200.00 +/- 0.00\n" for i in range(1,11)),
    10, (10, f(1)), (100, f(10)), {"episode_reward": (10, -299.73), "Eval_num_timesteps": (0, None)})
add("rsl-rl", "on_policy_runner.py of rsl_rl",
    "".join(f"################################################################################\n                      Learning iteration {i}/50000                       \n\n                       Computation: {44180+i} steps/s (collection: 1.731s, learning 0.495s)\n             Mean action noise std: 1.00\n               Value function loss: {f(i)}\n                    Surrogate loss: -0.00{i:02d}\n                       Mean reward: {2+i}.69\n                         Mean cost: 0.00\n--------------------------------------------------------------------------------\n                   Total timesteps: {98304*i}\n                    Iteration time: 2.23s\n                        Total time: {2*i}.23s\n                               ETA: 20456.2s\n\n" for i in range(1,11)),
    10, (1, None), (10, None), columns=("Value_function_loss", "dt_ms"))
add("xgboost-stopped", "early stopping of XGBoost",
    "Will train until valid-logloss hasn't improved in 30 rounds.\n"+"".join(f"[{10*i}]\ttrain-logloss:{f(i)}\tvalid-logloss:{v(i)}\n" for i in range(30))+f"Stopping. Best iteration:\n[282]\ttrain-logloss:{f(28)}\tvalid-logloss:{v(28)}\n\n",
    30, (0, f(0)), (290, f(29)), vl(30, min(v(i) for i in range(30))))
add("lightgbm-stopped", "early stopping of LightGBM, fold after fold",
    "".join("Training until validation scores don't improve for 50 rounds\n"+"".join(f"[{100*i}]\ttraining's binary_logloss: {f(i)}\tvalid_1's binary_logloss: {v(i)}\n" for i in range(1,11))+f"Early stopping, best iteration is:\n[940]\ttraining's binary_logloss: {f(9)}\tvalid_1's binary_logloss: {v(9)}\n" for _ in range(1)),
    10, (100, f(1)), (1000, f(10)), vl(10, min(v(i) for i in range(1,11))))
add("lightgbm-cli", "the command line of LightGBM",
    "".join(f"[LightGBM] [Info] Iteration:{i}, training's auc: 0.9{i:02d}\n[LightGBM] [Info] Iteration:{i}, training's log loss: {f(i)}\n[LightGBM] [Info] {2.43*i:.6f} seconds elapsed, finished {i} iteration\n" for i in range(1,31)),
    30, (1, f(1)), (30, f(30)))
add("catboost-long", "CatBoost when it has hours to go",
    "".join(f"{i}:\tlearn: {f(i)}\ttest: {v(i)}\tbest: {v(i)} ({i})\ttotal: {331+24*i if i < 20 else i/20:.3g}{'ms' if i < 20 else 's'}\tremaining: {f'{1}h {42-i}m {59-i}s' if i < 29 else '0us'}\n" for i in range(30))+f"\nbestTest = {v(29)}\nbestIteration = 29\n\n",
    30, (0, f(0)), (29, f(29)), vl(30, min(v(i) for i in range(30))), ("eta_min",))
add("sklearn-boosting", "GradientBoosting of scikit-learn",
    "      Iter       Train Loss   Remaining Time \n"+"".join(f"{i:10d} {f(i):16.4f} {f'{60-i}.84m' if i < 30 else f'{70-i}.82s':>16}\n" for i in range(1,41)),
    40, (1, f(1)), (40, f(40)))
add("nerfstudio", "the table of Nerfstudio",
    "Step (% Done)       Train Iter (time)    ETA (time)           Train Rays / Sec\n"+"-"*84+"\n"+"".join(f"{10*i} ({i/30:.2f}%)         {20+i%5}.996 ms            {30-i} m, {59-i} s           {31+i%3}.26 M\n" for i in range(1,21)),
    20, (10, None), (200, None), columns=("dt_ms",))
add("tflearn", "the terminal logger of TFLearn",
    "".join(f"Training Step: {i}  | total loss: {f(i)} | time: 0.275s\n| Adam | epoch: 001 | loss: {f(i)} - acc: 0.2{i:02d}{f' | val_loss: {v(i)} - val_acc: 0.5097' if i % 10 == 0 else ''} -- iter: {64*i:05d}/55000\n--\n" for i in range(1,31)),
    30, (1, f(1)), (30, f(30)), vl(3, v(30)), ("acc",))
add("char-rnn-tf", "train.py of char-rnn-tensorflow: one count for all epochs",
    "".join(f"{i}/60 (epoch {i//20}), train_loss = {f(i):.3f}, time/batch = 0.194\n" for i in range(60)),
    60, (0, round(f(0), 3)), (59, round(f(59), 3)), status="completed")
add("allennlp", "the trainer of AllenNLP without bars",
    "".join(f"2020-10-14 16:48:27,962 - INFO - allennlp.training.trainer - Epoch {e}/2\n2020-10-14 16:48:27,962 - INFO - allennlp.training.trainer - Training\n"+"".join(f"2020-10-14 {clock(60000+10*(100*e+b))},950 - INFO - allennlp.training.trainer - Batch {100*b}/1000: accuracy: 0.42, loss: {f(10*e+b)} ||\n" for b in range(1,11)) for e in range(3)),
    30, (100, f(1)), (1000, f(30)), columns=("epoch",), status="completed")
add("ludwig", "the tables of Ludwig",
    "".join(f"Epoch   {e}\nTraining: 100% 3/3 [00:10<00:00,  3.46s/it]\nEvaluation train: 100% 3/3 [00:03<00:00,  1.01s/it]\nTook 14.6354s\n╒══════════╤════════╤════════════╕\n│ rating   │   loss │   accuracy │\n╞══════════╪════════╪════════════╡\n│ train    │ {f(e)} │     0.3988 │\n├──────────┼────────┼────────────┤\n│ vali     │ {v(e)} │     0.2708 │\n├──────────┼────────┼────────────┤\n│ test     │ {v(e+1)} │     0.3585 │\n╘══════════╧════════╧════════════╛\n\n" for e in range(1,6)),
    5, (1, f(1)), (5, f(5)), vl(10, min(v(e) for e in range(1,7))))
add("leela", "training of Leela Chess Zero",
    "".join(f"step {100*i}, policy={v(i)} mse=0.0{i:02d} reg=0.378191 total={f(i)} ({4000+i}.92 pos/s)\n"+(f"step {100*i}, policy=7.69 training accuracy=1.13037%, mse=0.465906\nModel saved in file: /home/u/leelaz-model-{100*i}\n" if i % 10 == 0 else "") for i in range(1,31)),
    30, (100, f(1)), (3000, f(30)), columns=("policy", "mse"))
add("wav2letter", "the trainer of wav2letter",
    "".join(f"epoch:       {i} | nupdates:      {3000*i} | lr: 0.000015 | lrcriterion: 0.000015 | runtime: 03:57:15 | bch(ms): 404.{i:02d} | loss:  {f(i)} | train-TER: 56.{i:02d} | dev.lst-loss:  {v(i)} | dev.lst-TER: 55.27 | avg-isz: 1229 | hrs:  960.47 | thrpt(sec/sec): 242.89\n" for i in range(1,21)),
    20, (3000, f(1)), (60000, f(20)), vl(20, min(v(i) for i in range(1,21))), ("lr",))
add("clu", "metric writers of CLU, from several processes",
    "".join(f"I1002 {clock(70000+10*i)}.42489{p} 1404006{p} logging_writer.py:35] [{100*i}] steps_per_second=1.76, train_accuracy=0.0{i:02d}, train_learning_rate=0.97, train_loss={f(i)}\n" for i in range(1,11) for p in range(3)),
    30, (100, f(1)), (1000, f(10)), columns=("lr",))
add("tf-transformer", "the tutorial on Transformers of TensorFlow",
    "".join("".join(f"Epoch {e} Batch {50*b} Loss {f(4*e+b)} Accuracy 0.0{b}\n" for b in range(4))+f"Epoch {e} Loss {v(4*e)} Accuracy 0.0524\nTime taken for 1 epoch: {30+e}.24 secs\n\n" for e in range(1,6)),
    20, (0, f(4)), (150, f(23)))
add("words-with-commas", "scripts that separate names from values as they separate pairs",
    "".join(f"epoch {e}, phase train, total step {10*e-10}\n"+"".join(f"epoch {e}, phase train, step {10*e-10+b}, loss_train, {f(10*e+b)}\n" for b in range(1,11))+f"epoch {e}, phase valid, total step {10*e}\nepoch {e} | val_loss: {v(e)}\n" for e in range(1,4)),
    30, (1, f(11)), (30, f(40)), vl(3, v(3)))
add("train-and-val-lines", "scripts that print a block for each epoch",
    "".join(f"Epoch {e}/100\n  Train Loss: {f(e)}\n  Val Loss:   {v(e)}\n  Val Dice:   0.1{e:02d}\n  LR:         0.000100\n\n" for e in range(1,11)),
    10, (1, f(1)), (10, f(10)), vl(10, min(v(e) for e in range(1,11))), ("lr",))
add("unnamed-counter", "scripts that call their counter what they like",
    "".join(f"epoch/epochs:{e}/10,iteation:{87+20*e+b},loss_l:{v(b)},loss_c:{f(20*e+b)}\n" for e in range(1,4) for b in range(20)),
    60, (107, None), (166, None), columns=("loss_l", "loss_c"))
add("swin-unnamed", "vision scripts: epoch and index in brackets, and no word for either",
    "".join(f"[2022-03-14 {clock(36000+i)} tiny_window7_224] (main.py 226): INFO Fit: [{i//10}/30][{i%10*10}/100]\teta 0:10:52 lr 0.000710\ttime 0.6408 (0.6516)\tloss {f(i)} ({v(i)})\tgrad_norm 6.5613 (10.6225)\tmem 14764MB\n" for i in range(30)),
    30, (0, f(0)), (290, f(29)), columns=("lr", "dt_ms", "grad_norm"))
add("psnr", "restoration scripts",
    "".join(f"2022-07-21 {clock(36000+600*i)},677 - INFO: ===> Epoch {i} Complete: Avg. Loss: {f(i)} time: {650+i}.40\n2022-07-21 {clock(36001+600*i)},131 - INFO: ===> Epoch {i}: testing psnr = 34.{40+i}, ssim = 0.941, time: 0.02\n" for i in range(1,21)),
    20, (1, f(1)), (20, f(20)), {"testing_psnr": (20, 34.41)})
add("numbered-sets", "speech scripts: each validation set has a number",
    "".join(f"2021-03-13 {clock(32000+400*i)},406 - (Epoch {i}) TRAIN LOSS:{f(i)} CER:6.{50-i}% LR:0.0000167\n2021-03-13 {clock(32001+400*i)},461 - VALID\n2021-03-13 {clock(32060+400*i)},062 - VALID SET 0 LOSS:{v(i)} CER:5.{60-i}%\n2021-03-13 {clock(32061+400*i)},481 - SHUFFLE\n" for i in range(1,16)),
    15, (1, f(1)), (15, f(15)), vl(15, v(15)), ("lr", "CER_pct"))
add("best-behind", "click rates: a logloss beside a rate, and an evaluation that says the best one, too",
    "".join(f"  epoch 0 step {100*i} lr 0.001 logloss {f(i)} gN 0.{60-i}, Wed Jul  3 {clock(60000+60*i)} 2019\n"+(f"# Epoch-time {35*i}.16s Eval AUC 0.7{i:02d}. Best AUC 0.7{i:02d}.\n" if i % 15 == 0 else "") for i in range(1,31)),
    30, (100, f(1)), (3000, f(30)), {"Eval_AUC": (2, 0.715)}, ("lr",))
add("training-average", "knowledge graphs: a line for each part of an average loss",
    "".join(f"2021-11-08 {clock(17000+i)},552 INFO     Training average positive_sample_loss at step {100*i}: {v(i)}\n2021-11-08 {clock(17000+i)},552 INFO     Training average negative_sample_loss at step {100*i}: 0.04{i:02d}\n2021-11-08 {clock(17000+i)},552 INFO     Training average loss at step {100*i}: {f(i)}\n" for i in range(20)),
    20, (0, None), (1900, None), columns=("loss_avg",))
add("process-names", "scripts whose lines begin with a process and its level",
    "".join(f"2022-01-24 {clock(47000+60*i)},562 P834 INFO Epoch {i}, Train loss: {f(i)}\n2022-01-24 {clock(47030+60*i)},208 P834 INFO Epoch {i} CV info cv_loss {v(i)}\n" for i in range(1,21)),
    20, (1, f(1)), (20, f(20)), vl(20, v(20)))
add("camel-case", "scripts that write names as Java does",
    "".join(f"epoch {i} trainLoss {f(i)} valLoss {v(i)} trainAcc 0.5{i:02d} valAcc 0.4{i:02d} learningRate 0.001\n" for i in range(1,21)),
    20, (1, f(1)), (20, f(20)), {"val_loss": (20, v(20)), "val_Acc": (20, 0.401)}, ("lr", "train_Acc"))
add("epoch-and-iter", "two counters in one pair, and their names in another",
    "".join(f"[04/14 {clock(36000+7*i)} reid.events]:  eta: 1:14:16  epoch/iter: {i//10}/{20*i+19}  total_loss: {f(i)}  loss_cls: 4.0{i:02d}  time: 0.2681  lr: 3.50e-04  max_mem: 18418M\n" for i in range(30)),
    30, (19, f(0)), (599, f(29)), columns=("lr", "dt_ms"))
add("fairseq-lua", "fairseq when it was in Lua",
    "".join(f"| epoch {1+i//10:03d} | {1000*(i+1):07d} updates | words/s    77{i:02d}| trainloss     {f(i)} | train ppl     8.14\n" for i in range(30)),
    30, (1000, f(0)), (30000, f(29)), columns=("tok_per_sec",))
add("sentences", "scripts that end what they say with a full stop",
    "".join(f"Step: {10*i}. Epoch: {i//10}/10. Part one: 0.2{i:02d}. Total loss: {f(i)}. Took 0.31s.\n"+(f"Val. Epoch: {i//10}/10. Part one: 0.3{i:02d}. Total loss: {v(i)}.\n" if i % 10 == 9 else "") for i in range(40)),
    40, (0, f(0)), (390, f(39)), vl(4, v(39)))
add("run-called-test", "scripts that print what the run is called, which is a test",
    "".join(f"INFO:trainers: gpu_test: Target: Step: {1000*i}. Time Elapsed: {6*i}.900 s Mean Reward: 0.{i:03d}. Value Loss: 0.471. Loss: {f(i)}. Training.\n" for i in range(1,31)),
    30, (1000, f(1)), (30000, f(30)), {"Mean_Reward": (0, None)})
add("chainer", "PrintReport of Chainer, whose rows have no last cell until there is an evaluation",
    "epoch       iteration   lr          main/loss   main/loss/loc  validation/main/map\n"+"".join(f"{i//4:<12}{100*i:<12}{'0.0001':<12}{f(i):<12}{0.4:<15}{0.71 if i % 10 == 0 else '':<20}\n" for i in range(1,31)),
    30, (100, f(1)), (3000, f(30)), {"validation_main_map": (3, 0.71)}, ("lr",))
