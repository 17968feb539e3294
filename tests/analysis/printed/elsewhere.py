# ruff: noqa: E501 (a template is a line of a log and reads as one)
"""What is printed around and beside trainings, and is none: nothing in it is a record or an evaluation."""

from __future__ import annotations

from tests.analysis.printed import clock, lines

NO_TRAINING = {
    "pip": lines(
        "Collecting torch==2.3.0",
        "  Downloading torch-2.3.0-cp311-cp311-manylinux1_x86_64.whl (779.1 MB)",
        *(f"     {'━' * (i // 2)}{' ' * (40 - i // 2)} {i * 9.7:.1f}/779.1 MB {10 + i % 5}.{i % 10} MB/s eta 0:00:{80 - i:02d}" for i in range(1, 81)),
        "Requirement already satisfied: numpy>=1.17 in /usr/lib/python3/dist-packages (from torchvision) (1.26.4)",
        "Installing collected packages: nvidia-nccl-cu12, torch",
        "Successfully installed nvidia-nccl-cu12-2.20.5 torch-2.3.0",
    ),
    "nccl": lines(
        *(f"node1:{4121 + r}:{4200 + r} [{r}] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.{r}<0>" for r in range(8)),
        *(f"node1:{4121 + r}:{4200 + r} [{r}] NCCL INFO Channel {c:02d}/32 : {r}[{r}] -> {(r + 1) % 8}[{(r + 1) % 8}] via P2P/CUMEM/read" for r in range(8) for c in range(8)),
        *(f"node1:{4121 + r}:{4200 + r} [{r}] NCCL INFO comm 0x55{r}a rank {r} nranks 8 cudaDev {r} nvmlDev {r} busId {r}000 commId 0xabc - Init COMPLETE" for r in range(8)),
        *(f"node1:{4121 + r}:{4200 + r} [{r}] NCCL INFO threadThresholds 8/8/64 | 64/8/64 | 512 | 512" for r in range(8)),
    ),
    "nvidia-smi": lines(
        *(
            f"Mon May  1 {clock(36000 + i)} 2024\n+---------------------------------------------------------------------------------------+\n| NVIDIA-SMI 535.104.05             Driver Version: 535.104.05   CUDA Version: 12.2     |\n"
            "|-----------------------------------------+----------------------+----------------------+\n| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |\n| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |\n"
            f"|   0  NVIDIA H100 80GB HBM3          On  | 00000000:04:00.0 Off |                    0 |\n| N/A   {37 + i}C    P0             {112 + i}W / 700W |   {1519 + i}MiB / 81559MiB |      {i}%      Default |\n|    0   N/A  N/A     {4121 + i}      C   python                                    {1509 + i}MiB |"
            for i in range(10)
        ),
    ),
    "github-actions": lines(
        *(f"2024-05-01T{clock(36000 + i)}.1234567Z ##[group]Run actions/checkout@v{i % 4}" for i in range(8)),
        *(f"2024-05-01T{clock(36100 + i)}.1234567Z tests/test_loss_{i}.py ....................... [ {i * 2:2d}%]" for i in range(50)),
        "2024-05-01T10:05:00.1234567Z =================== 1234 passed, 3 skipped in 123.45s (0:02:03) ===================",
        *(f"2024-05-01T{clock(36200 + i)}.1234567Z tests/test_train.py::test_loss_decreases[{i}] PASSED [ {i * 5:2d}%]" for i in range(20)),
    ),
    "source": lines(
        "import torch", "for step in range(max_steps):", "    loss = model(x, y)", "    lr = 3e-4 * min(1.0, step / 100)",
        *(f'    print(f"step {{step:5d}}/{n} | loss {{loss:.{n % 9}f}} | lr {{lr:.4e}} | norm {{norm:.4f}} | dt {{dt*1000:.2f}}ms")' for n in range(10, 30)),
        *(f"    # step {i}: loss was {3 - i / 10:.1f}, lr was 1e-{i}" for i in range(1, 3)), "lr = 0.001  # learning rate", "loss_scale = 65536.0", "train_loss = 0.0",
    ),
    "yaml": lines("optimizer:", "  lr: 0.0003", "  weight_decay: 0.1", "  betas: [0.9, 0.95]", "loss:", "  label_smoothing: 0.1", "  weight: 1.0", "trainer:", "  max_steps: 10000", "  val_check_interval: 100", "  grad_clip: 1.0", "  log_every: 10", "model:", "  n_layer: 12", "  n_head: 12", "  dropout: 0.1"),
    "arguments": lines(
        "------------------------ arguments ------------------------",
        *(f"  {name} {'.' * (46 - len(name))} {value}" for name, value in {"accumulate_allreduce_grads_in_fp32": "True", "adam_beta1": "0.9", "adam_eps": "1e-08", "clip_grad": "1.0", "eval_interval": "1000", "eval_iters": "10", "global_batch_size": "1024", "init_method_std": "0.02", "log_interval": "1", "loss_scale": "None", "loss_scale_window": "1000", "lr": "0.00015", "lr_warmup_iters": "0", "min_lr": "1e-05", "train_iters": "500000", "weight_decay": "0.01"}.items()),
        "-------------------- end of arguments ---------------------",
    ),
    "every-rank-says-its-settings": lines(*(f"[rank{r}] step_size=0.1 lr=0.0003 loss_weight=1.0 batch_size=32 num_epochs=10" for r in range(8))),
    "parameters": lines(
        "==========================================================================================", "Layer (type:depth-idx)                   Output Shape              Param #", "==========================================================================================",
        *(f"│    └─Conv2d: 2-{i}                        [1, {64 * i}, 112, 112]         {9408 * i:,}" for i in range(1, 40)), "Total params: 11,689,512", "Trainable params: 11,689,512", "Total mult-adds (G): 1.81", "Input size (MB): 0.60", "Forward/backward pass size (MB): 39.75",
    ),
    "keras-summary": lines(" Layer (type)                Output Shape              Param #   ", "=================================================================", *(f" dense_{i} (Dense)             (None, {512 // i})               {401920 // i}    " for i in range(1, 12)), "Total params: 669,706", "Trainable params: 669,706"),
    "vllm": lines(*(f"INFO 05-01 {clock(36000 + 5 * i)} metrics.py:351] Avg prompt throughput: {12 + i}.3 tokens/s, Avg generation throughput: {45 + i}.6 tokens/s, Running: {i % 5} reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: {i}.1%, CPU KV cache usage: 0.0%." for i in range(40))),
    "llama.cpp": lines(*(f"llama_perf_context_print:        eval time =    {512 + i}.12 ms /    63 runs   (    8.{i:02d} ms per token,   123.{i:02d} tokens per second)\nllama_perf_context_print:       total time =    {612 + i}.12 ms /    73 tokens" for i in range(10))),
    "datasets": "".join(f"\rMap (num_proc=8):  {i}%|{'█' * (i // 10):10}| {100 * i}/10000 [00:{i % 60:02d}<00:30, {2000 + i}.12 examples/s]" for i in range(100)) + "\n" + "".join(f"\rGenerating train split: {1000 * i} examples [00:{i:02d}, {40000 + i}.1 examples/s]" for i in range(50)) + "\n",
    "downloads": "".join(f"\rmodel.safetensors:  {i}%|{'█' * (i // 10):10}| {i * 48}M/4.98G [00:{i % 60:02d}<01:30, {50 + i}.1MB/s]" for i in range(100)) + "\n" + "".join(f"\rReceiving objects:  {i}% ({10 * i}/1000), {i}.12 MiB | 1.{i:02d} MiB/s" for i in range(100)) + "\n",
    "optuna": lines(*(f"[I 2024-05-01 {clock(36000 + i)},123] Trial {i} finished with value: 0.8{i:02d} and parameters: {{'lr': {0.001 + i / 1e4:.4f}, 'dropout': 0.{i:02d}, 'layers': {i % 4}}}. Best is trial 0 with value: 0.8." for i in range(30))),
    "web-server": lines(*(f'10.0.0.{i} - - [01/May/2024:{clock(36000 + i)} +0000] "GET /api/v1/train/loss?step={i} HTTP/1.1" 200 {512 + i} "-" "curl/8.{i}"' for i in range(40))),
    "top": lines(*(f"top - {clock(36000 + 3 * i)} up 12 days,  3:04,  2 users,  load average: 0.{52 + i}, 0.{58 + i}, 0.59\n%Cpu(s):  {i}.9 us,  3.2 sy,  0.0 ni, {90 - i}.6 id,  0.1 wa\nMiB Mem :  64219.1 total,  {12345 - i}.6 free,  20012.3 used\n {4121 + i} root      20   0   12.3g   4.5g 512000 R  99.{i}   7.1   {i}:23.45 python" for i in range(20))),
    "ping": lines(*(f"64 bytes from 10.0.0.1: icmp_seq={i} ttl=64 time=0.{100 + i} ms" for i in range(40)), "--- 10.0.0.1 ping statistics ---", "40 packets transmitted, 40 received, 0% packet loss, time 39912ms", "rtt min/avg/max/mdev = 0.100/0.120/0.139/0.010 ms"),
    "spark": lines(*(f"24/05/01 {clock(36000 + i)} INFO TaskSetManager: Finished task {i}.0 in stage 3.0 (TID {100 + i}) in {123 + i} ms on 10.0.0.{i % 4} (executor {i % 4}) ({i}/200)" for i in range(60))),
    "compiler": lines(*(f"[{i}/412] Building CXX object csrc/CMakeFiles/ops.dir/loss_{i}.cpp.o" for i in range(1, 60)), *(f"[ {i}%] Building CUDA object CMakeFiles/flash.dir/step_{i}.cu.o" for i in range(40))),
    "kernel": lines(*(f"[{1000 + i}.{123456 + i}] nvidia-uvm: Loaded the UVM driver, major device number {500 + i}." for i in range(10)), *(f"[{2000 + i}.123456] eth0: Lost carrier, error rate 0.{i}" for i in range(10))),
    "slurm": lines("             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)", *(f"            {123456 + i}       gpu    train    alice  R       {i}:23:45      {1 + i % 4} node[00{i % 9}-01{i % 9}]" for i in range(20))),
    "disk": lines("Filesystem      Size  Used Avail Use% Mounted on", *(f"/dev/nvme{i}n1    3.5T  1.{i}T  2.{9 - i}T  3{i}% /mnt/data{i}" for i in range(9)), *(f"-rw-r--r-- 1 alice alice {4096 * i} May  1 10:{i:02d} checkpoint_{100 * i}.pt" for i in range(40))),
    "dataloader-statistics": lines(*(f"shard {i:05d}: {100000 + i} documents, {123456789 + i} tokens, {i}.5 GB, took {12 + i % 5}.3s" for i in range(60))),
    "sweep-results": lines("| model | params | accuracy | latency (ms) |", "|-------|--------|----------|--------------|", *(f"| resnet{i} | {i}.7M | {70 + i / 10:.1f} | {12 + i}.3 |" for i in range(18, 30))),
    "prose": lines(*(f"In section {i} we show that a loss of {3 - i / 10:.1f} after {i}000 steps, at a learning rate of 3e-4, is reached {i} times faster than in the work of {2000 + i}." for i in range(1, 8))),
    "ray": lines(*(f"(raylet) [2024-05-01 {clock(36000 + i)},123 E 4121 4121] (raylet) node_manager.cc:3065: {i} Workers (tasks / actors) killed due to memory pressure (OOM), {i} Workers crashed due to other reasons at node (ID: abc, IP: 10.0.0.1) over the last time period." for i in range(10))),
    "benchmark": lines("name                    time (us)   speedup", *(f"matmul_{2**i:<17d}{i * 12.3:9.2f}   {1 + i / 10:.2f}x" for i in range(5, 13)), *(f"Benchmark {i}: sleep 0.{i}\n  Time (mean ± σ):     10{i}.2 ms ±   0.{i} ms    [User: 0.{i} ms, System: 0.5 ms]\n  Range (min … max):   101.0 ms … 103.{i} ms    27 runs" for i in range(1, 6))),
}  # fmt: skip
