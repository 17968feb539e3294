# ruff: noqa: E501 (a template is a line of a log and reads as one)
# fmt: off
"""Short logs, notebooks' tables, known lines beside unknown ones, words of other languages."""

from __future__ import annotations

from tests.analysis.printed import Printed, falling, val_losses, validated

f, v, vl = falling, validated, val_losses
LOGS: list[Printed] = []


def add(
    name: str,
    text: str,
    records: int,
    first: tuple[int | None, float | None],
    last: tuple[int | None, float | None],
    evals: dict[str, tuple[int, float | None]] | None = None,
    attempts: int = 1,
    status: str = "unknown",
) -> None:
    LOGS.append(Printed(name, "forms that many scripts and notebooks share", text, records, first, last, evals or {}, attempts=attempts, status=status))


add("nanogpt-fork-val","".join(f"iter {10*i}: loss {f(i):.4f}, time 42.97ms, mfu 30.00%\n"+(f">>> held-out @ {10*i}: nll {v(i):.4f}, ppl {30+i}.5\n" if i%10==9 else "") for i in range(60)),60,(0,f(0)),(590,f(59)),vl(6,v(59)))
add("tqdm+lines","".join(f"\rtrain:  {i%50}%|#  | {i%50}/50 [00:01<00:09, 1.0it/s]" + (f"\nstep={i} ce_loss={f(i)} acc=0.{500+i} lr=0.001\n" if i%5==0 else "") for i in range(100)),20,(0,f(0)),(95,f(95)))
add("json-final","".join(f"it {i} | objective {f(i)} | lr 1e-3\n" for i in range(60))+'{"step": 59, "loss": 2.37, "val_loss": 2.5}\n',60,(0,f(0)),(59,f(59)),vl(1,2.5))
add("few-short","epoch 1 loss 2.3 acc 0.1\nepoch 2 loss 2.1 acc 0.2\nepoch 3 loss 1.9 acc 0.3\n",3,(1,2.3),(3,1.9))
add("two","epoch 1: loss=2.3\nepoch 2: loss=2.1\n",2,(1,2.3),(2,2.1))
add("one","Epoch 1/1, loss: 2.3, lr: 0.001\n",1,(1,2.3),(1,2.3),status="completed")
add("vit-jax","".join(f"I0501 10:00:{i:02d}.1 140 train.py:200] Step: {i*50}/1000 {i*5}.0%, img/sec/core: {400+i}.1, ETA: 0.12h, train_loss: {f(i):.4f}\n" for i in range(20)),20,(0,f(0)),(950,f(19)))
add("nemo-rl","".join(f"========================= Step {i}/30 =========================\n▶ Preparing batch...\n▶ Training policy...\n📊 Training Results:\n  • Loss: {f(i)}\n  • Avg Reward: 0.{300+i}\n  • Mean Generation Length: {100+i}.5\n⏱️  Timing:\n  • Total step time: {60+i%5}.12s\n" for i in range(1,31)),30,(1,f(1)),(30,f(30)),status="completed")
add("unsloth-banner","==((====))==  Unsloth - 2x faster free finetuning | Num GPUs used = 1\n   \\\\   /|    Num examples = 51,760 | Num Epochs = 1 | Total steps = 60\nO^O/ \\_/ \\    Batch size per device = 2 | Gradient accumulation steps = 4\n\\        /    Data Parallel GPUs = 1 | Total batch size (2 x 4 x 1) = 8\n \"-____-\"     Trainable parameters = 41,943,040/8,000,000,000 (0.52% trained)\n"+"".join(f"{{'loss': {f(i)}, 'grad_norm': 1.2, 'learning_rate': 0.0002, 'epoch': {i/6470:.2f}}}\n" for i in range(1,61)),60,(None,f(1)),(None,f(60)))
add("unsloth-table","Step\tTraining Loss\n"+"".join(f"{i}\t{f(i):.6f}\n" for i in range(1,61)),60,(1,f(1)),(60,f(60)))
add("notebook-table","Epoch\tTraining Loss\tValidation Loss\tAccuracy\n"+"".join(f"{i}\t{f(i):.6f}\t{v(i):.6f}\t0.{500+i}\n" for i in range(1,11)),10,(1,f(1)),(10,f(10)),vl(10,min(v(i) for i in range(1,11))))
add("notebook-nolog","Epoch\tTraining Loss\tValidation Loss\n"+"1\tNo log\t2.5\n"+"".join(f"{i}\t{f(i):.6f}\t{v(i):.6f}\n" for i in range(2,11)),9,(2,f(2)),(10,f(10)))
add("markdown-card","| Training Loss | Epoch | Step | Validation Loss |\n|:-------------:|:-----:|:----:|:---------------:|\n"+"".join(f"| {f(i)}        | {i}.0   | {100*i}  | {v(i)}          |\n" for i in range(1,11)),10,(100,f(1)),(1000,f(10)),vl(10,min(v(i) for i in range(1,11))))
add("keras-tf1","Train on 60000 samples, validate on 10000 samples\n"+"".join(f"Epoch {e}/5\n"+"".join(f"\r{k:5d}/60000 [{'='*(k//4000)}>{'.'*(15-k//4000)}] - ETA: 1:{k%60:02d} - loss: {f(e)+0.1:.4f} - acc: 0.5" for k in range(128,60000,9984))+f"\r60000/60000 [==============================] - 12s 200us/step - loss: {f(e):.4f} - acc: 0.9 - val_loss: {v(e):.4f} - val_acc: 0.91\n" for e in range(1,6)),5,(1,f(1)),(5,f(5)),vl(5,min(round(v(e),4) for e in range(1,6))),status="completed")
add("lightning-step","".join(f"\rEpoch {e}:  {k}%|███ | {k}/100 [00:{k%60:02d}<00:30,  3.1it/s, v_num=3, train_loss_step={f(e)+1-k/100:.3f}, train_loss_epoch={f(e):.3f}, val_loss={v(e):.3f}]" for e in range(5) for k in range(10,101,10))+"\n",5,(0,round(f(0),3)),(4,round(f(4),3)))
add("optimizer-lines","".join(f"[iter {i}] train: loss = {f(i)}; |g| = {1+i/100:.2f}; lr = 0.001; {123+i} tok/ms\n" for i in range(50)),50,(0,f(0)),(49,f(49)))
add("blank-sep","".join(f"{100*i:6d} {f(i):8.4f} {v(i):8.4f} 3.0e-04\n" for i in range(50)),0,(None,None),(None,None))
add("named-blank","iter     train      valid         lr\n"+"".join(f"{100*i:6d} {f(i):8.4f} {v(i):8.4f} 3.0e-04\n" for i in range(50)),50,(0,f(0)),(4900,f(49)),vl(50,min(v(i) for i in range(50))))
add("stage-words","=== Stage 1: pretraining ===\n"+"".join(f"step {i} loss {f(i)}\n" for i in range(20))+"=== Stage 2: finetuning ===\n"+"".join(f"step {i} loss {v(i)}\n" for i in range(20)),40,(0,f(0)),(19,v(19)),attempts=2)
add("pct-acc","".join(f"[{e}/20] Train Loss: {f(e)} Train Acc: {50+e}.12% Test Loss: {v(e)} Test Acc: {48+e}.10% Time: 12.3s\n" for e in range(1,21)),20,(1,f(1)),(20,f(20)),vl(20,min(v(e) for e in range(1,21))),status="completed")
add("ms-space","".join(f"epoch {e} batch {b}/300 loss {f(3*e+b//100)} 12 ms\n" for e in range(3) for b in range(0,300,100)),9,(0,f(0)),(800,f(8)))
add("arrow-val","".join(f"Step {i*100}: train_loss={f(i)}\n"+(f"  -> val_loss={v(i)} val_acc=0.5\n" if i%5==0 else "") for i in range(40)),40,(0,f(0)),(3900,f(39)),vl(8,min(v(i) for i in range(0,40,5))))
add("val-first","".join((f"Validation: loss={v(i)}, acc=0.5\n" if i%5==0 else "")+f"Step {i*100}: loss={f(i)}\n" for i in range(40)),40,(0,f(0)),(3900,f(39)),vl(8,min(v(i) for i in range(0,40,5))))
add("emoji","".join(f"🚀 Epoch {e}/20 | 📉 Loss: {f(e)} | 🎯 Acc: 0.{500+e} | ⏱ 12.3s\n" for e in range(1,21)),20,(1,f(1)),(20,f(20)),status="completed")
add("cn","".join(f"第 {e} 轮, loss: {f(e)}, 学习率: 0.001\n" for e in range(1,21)),20,(1,f(1)),(20,f(20)))
