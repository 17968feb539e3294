"""Texts that no training printed, by kind: each function writes one of its kind, another for every seed.

They speak of loss, steps, rates, epochs and scores as other trades do, or quote a training.
"""

# ruff: noqa: E501
from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

Kind = Callable[[Random], str]


def _lines(count: int, line: Callable[[int], str]) -> str:
    return "".join(line(at) + "\n" for at in range(count))


def _date(at: int) -> str:
    return f"2026-03-{1 + at // 24:02d} {at % 24:02d}:{at * 7 % 60:02d}:{at * 13 % 60:02d}"


def report_with_tables(r: Random) -> str:
    rows = _lines(
        8,
        lambda i: (
            f"| d{8 + 4 * i} | {r.uniform(2, 4):.4f} | {r.uniform(20, 50):.1f} | {r.randint(10, 99)}k |"
        ),
    )
    return (
        f"# Week {r.randint(1, 52)}: where the loss went\n\nWe compared depths at equal tokens.\n\n"
        f"| run | val loss | MFU | tok/s |\n|---|---|---|---|\n{rows}\n"
        f"The deepest run reaches {r.uniform(2, 3):.3f} after {r.randint(5, 50)},000 steps, 2 % below the last.\n"
    )


def report_with_quoted_lines(r: Random) -> str:
    step = r.randint(100, 9000)
    return (
        f"## Incident of run d{r.randint(8, 30)}\n\nAt step {step} the loss jumped. The log says:\n\n"
        f"> step {step} | loss: {r.uniform(2, 4):.4f} | lr 3.0e-04 | norm: 0.81 | dt: 812.10ms | tok/sec: 64512.1\n"
        f"> step {step + 1} | loss: nan | lr 3.0e-04 | norm: nan | dt: 811.92ms | tok/sec: 64520.0\n\n"
        "We restarted from the checkpoint before it and skipped the shard.\n"
    )


def report_with_fenced_lines(r: Random) -> str:
    quoted = _lines(3, lambda i: f"iter {i * 10}: loss {r.uniform(2, 9):.4f}, time 98.10ms, mfu 31.20%")
    return f"# How to read the output\n\nThe trainer prints a line every ten iterations:\n\n```\n{quoted}```\n\nThe first is slower: it compiles.\n"


def report_with_figures_in_prose(r: Random) -> str:
    return "".join(
        f"In epoch {i} the loss fell to {r.uniform(1, 3):.2f}, while accuracy rose to {r.uniform(50, 90):.1f} %. "
        f"The learning rate of {r.choice(['3e-4', '1e-3'])} was too high for depth {r.randint(8, 30)}.\n\n"
        for i in range(1, 6)
    )


def table_of_experiments(r: Random) -> str:
    return "experiment\tbatch\tlr\tfinal loss\tnotes\n" + _lines(
        10,
        lambda i: (
            f"exp-{i:03d}\t{2 ** r.randint(3, 8)}\t{r.choice(['1e-3', '3e-4'])}\t{r.uniform(1, 4):.3f}\t{r.choice(['ok', 'diverged', 'rerun'])}"
        ),
    )


def tutorial(r: Random) -> str:
    return (
        "# Your first training\n\nRun the script; after a while you should see something like\n\n"
        f"    step {r.randint(1, 100)}: loss {r.uniform(1, 4):.2f}\n\n"
        "If the loss does not fall, lower the learning rate. Then try `--depth 12`.\n"
    )


def python_source(r: Random) -> str:
    return f"""import torch

LR = {r.choice(["3e-4", "1e-3"])}
for step in range({r.randint(100, 9000)}):
    loss = model(x, y)
    loss.backward()
    if step % {r.choice([10, 100])} == 0:
        print(f"step {{step}} | loss: {{loss.item():.4f}} | lr {{LR:.2e}}")
assert loss < {r.uniform(1, 4):.1f}, "loss: 3.0 expected"
val_loss = 0.0  # step 10: val loss 3.2
"""


def c_source(r: Random) -> str:
    return _lines(
        12,
        lambda i: f'  if (step == {i}) printf("step %d loss %f\\n", step, loss{i} * {r.uniform(0, 1):.3f}f);',
    )


def unit_test_output(r: Random) -> str:
    return (
        _lines(
            20,
            lambda i: (
                f"tests/test_loss.py::test_loss_of_step_{i} PASSED [{5 * (i + 1):3d}%] {r.uniform(0, 2):.2f}s"
            ),
        )
        + f"===== 20 passed in {r.uniform(1, 9):.2f}s =====\n"
    )


def diff(r: Random) -> str:
    return "".join(
        f"@@ -{i * 10},3 +{i * 10},3 @@\n-  lr: {r.uniform(0, 1):.4f}\n+  lr: {r.uniform(0, 1):.4f}\n   loss_weight: {i}\n"
        for i in range(1, 9)
    )


def ticket(r: Random) -> str:
    number = r.randint(100, 9999)
    return (
        f"#{number}: training diverges after epoch {r.randint(2, 20)}\n\nStatus: open\nPriority: {r.randint(1, 4)}\n\n"
        f"With lr={r.choice(['0.01', '0.1'])} I get loss: {r.uniform(5, 90):.2f} at step {r.randint(10, 900)} and then nan. Expected loss: 2.1.\n"
        "Steps to reproduce:\n1. install\n2. run train.py\n3. wait\n"
    )


def chat(r: Random) -> str:
    return _lines(
        12,
        lambda i: (
            f"[{9 + i // 6:02d}:{i * 5 % 60:02d}] {r.choice(['ana', 'bo', 'cy'])}: "
            + r.choice(
                [
                    f"loss is at {r.uniform(2, 4):.2f} now",
                    "which lr do you use?",
                    f"step {r.randint(100, 9000)} and still going",
                    f"my val loss: {r.uniform(2, 4):.3f}",
                ]
            )
        ),
    )


def packet_loss(r: Random) -> str:
    return _lines(
        30,
        lambda i: (
            f"{_date(i)} probe={i} host=10.0.0.{r.randint(1, 9)} packet_loss={r.uniform(0, 5):.2f} rtt_ms={r.uniform(1, 90):.2f}"
        ),
    )


def ping_statistics(r: Random) -> str:
    return _lines(
        20,
        lambda i: (
            f"{100 + i} packets transmitted, {99 + i - r.randint(0, 3)} received, loss {r.uniform(0, 3):.2f}%, time {r.randint(900, 9999)}ms"
        ),
    )


def optical_power(r: Random) -> str:
    return _lines(
        48,
        lambda i: (
            f"port {i + 1} rx -{r.uniform(2, 9):.2f} dBm insertion loss: {r.uniform(0, 3):.2f} dB return loss: {r.uniform(30, 60):.1f} dB"
        ),
    )


def fiber_csv(r: Random) -> str:
    return "step,wavelength_nm,insertion_loss_db,return_loss_db\n" + _lines(
        40, lambda i: f"{i},{1520 + i},{r.uniform(0, 3):.3f},{r.uniform(30, 60):.2f}"
    )


def antenna(r: Random) -> str:
    return _lines(
        30,
        lambda i: (
            f"epoch {i}: path loss {r.uniform(60, 120):.1f} dB, snr {r.uniform(0, 30):.1f} dB, rate {r.uniform(1, 9):.2f} Mbit/s"
        ),
    )


def battery_csv(r: Random) -> str:
    return "step,voltage_v,loss_w,temp_c\n" + _lines(
        60, lambda i: f"{i},{r.uniform(3, 4.2):.3f},{r.uniform(0, 2):.3f},{r.uniform(20, 45):.1f}"
    )


def battery_lines(r: Random) -> str:
    return _lines(
        40,
        lambda i: (
            f"cycle {i} capacity {r.uniform(80, 100):.2f}% capacity loss {r.uniform(0, 2):.3f}% charge rate {r.uniform(0.5, 2):.2f}C"
        ),
    )


def heat_loss(r: Random) -> str:
    return _lines(
        30,
        lambda i: (
            f"{_date(i)} zone {i % 4} heat loss: {r.uniform(100, 900):.1f} W setpoint {r.uniform(18, 22):.1f}"
        ),
    )


def profit_csv(r: Random) -> str:
    return "date,revenue,cost,profit_loss\n" + _lines(
        36,
        lambda i: (
            f"2026-{1 + i % 12:02d}-01,{r.randint(100, 900)},{r.randint(100, 900)},{r.randint(-90, 90)}"
        ),
    )


def trades(r: Random) -> str:
    return "trade,entry,stop_loss,exit,profit\n" + _lines(
        40,
        lambda i: (
            f"{i},{r.uniform(90, 110):.2f},{r.uniform(85, 90):.2f},{r.uniform(90, 120):.2f},{r.uniform(-5, 9):.2f}"
        ),
    )


def trading_lines(r: Random) -> str:
    return _lines(
        30,
        lambda i: (
            f"{_date(i)} BUY #{i} at ${r.uniform(90, 110):.2f} stop loss ${r.uniform(85, 90):.2f} p/l ${r.uniform(-5, 9):.2f}"
        ),
    )


def weight_loss(r: Random) -> str:
    return _lines(
        30,
        lambda i: (
            f"week {i + 1}: weight {90 - i * 0.3 + r.uniform(0, 1):.1f} kg, weight loss {r.uniform(0, 1):.2f} kg, steps {r.randint(4000, 12000)}"
        ),
    )


def insurance(r: Random) -> str:
    return "claim,year,loss_ratio,expense_ratio,loss_usd\n" + _lines(
        30,
        lambda i: (
            f"{i},20{10 + i % 16},{r.uniform(0.4, 0.9):.3f},{r.uniform(0.2, 0.4):.3f},{r.randint(1000, 90000)}"
        ),
    )


def load_test(r: Random) -> str:
    return _lines(
        60,
        lambda i: (
            f"step={i} users={10 * i} rps={r.uniform(90, 900):.1f} p95_ms={r.uniform(10, 90):.1f} error_rate={r.uniform(0, 0.05):.4f}"
        ),
    )


def load_test_table(r: Random) -> str:
    return "iteration  throughput  latency  errors\n" + _lines(
        40, lambda i: f"{i:9d}  {r.uniform(90, 900):10.1f}  {r.uniform(1, 90):7.2f}  {r.randint(0, 5):6d}"
    )


def web_server(r: Random) -> str:
    return _lines(
        60,
        lambda i: (
            f'10.0.0.{r.randint(1, 9)} - - [21/Mar/2026:10:{i % 60:02d}:00 +0000] "GET /api/v0/train?epoch={i}&loss={r.uniform(0, 1):.4f} HTTP/1.1" 200 {r.randint(90, 9000)}'
        ),
    )


def proxy(r: Random) -> str:
    return _lines(
        40,
        lambda i: (
            f"{_date(i)} INFO GET http://dash.local/runs/{i}?step={i * 10}&val_loss={r.uniform(1, 3):.3f} {r.choice([200, 304])} {r.uniform(1, 90):.1f}ms"
        ),
    )


def kernel(r: Random) -> str:
    return _lines(
        30,
        lambda i: (
            f"[{i * 3.7 + r.uniform(0, 1):12.6f}] nvme nvme0: I/O {r.randint(1, 900)} QID {i} timeout, completion polled, link loss count {r.randint(0, 3)}"
        ),
    )


def node_monitor(r: Random) -> str:
    return _lines(
        40,
        lambda i: (
            f"{_date(i)} cpu={r.uniform(1, 99):.1f}% mem={r.uniform(1, 99):.1f}% disk_rate={r.uniform(1, 900):.1f}MB/s net_err={r.randint(0, 9)} load={r.uniform(0, 8):.2f}"
        ),
    )


def prometheus(r: Random) -> str:
    return _lines(
        30,
        lambda i: (
            f'http_request_duration_seconds_bucket{{le="{i / 10:.1f}",path="/train"}} {r.randint(1, 9000)}'
        ),
    )


def scheduler(r: Random) -> str:
    return _lines(
        30,
        lambda i: (
            f"{_date(i)} [INFO] job {1000 + i} step {i} queued, priority {r.randint(1, 99)}, wait time {r.uniform(1, 900):.1f}s, error rate {r.uniform(0, 1):.2f}"
        ),
    )


def migration(r: Random) -> str:
    return _lines(
        25, lambda i: f"step {i + 1}/25: applied 2026_{i:04d}_add_loss_column ({r.uniform(1, 900):.2f}ms)"
    )


def build(r: Random) -> str:
    return _lines(
        40, lambda i: f"[{i + 1}/40] Building CXX object src/loss_{i}.cpp.o time {r.uniform(0.1, 9):.2f}s"
    )


def downloads(r: Random) -> str:
    return _lines(
        30,
        lambda i: (
            f"epoch_{i}.tar: {r.randint(1, 99)}% | {r.uniform(1, 900):.1f}MB/s eta {r.randint(1, 60)}s time {r.uniform(1, 9):.1f}s"
        ),
    )


def simulation(r: Random) -> str:
    return _lines(
        40,
        lambda i: f"iter {i} residual {10 ** -(i / 9):.3e} CFL {r.uniform(0.3, 0.9):.2f} time {i * 0.01:.3f}",
    )


def solver_table(r: Random) -> str:
    return "  k   f(x)          |grad|      step\n" + _lines(
        30, lambda i: f"{i:3d}   {r.uniform(1, 9):.6e}  {r.uniform(0, 1):.3e}  {r.uniform(0, 1):.3f}"
    )


def game_scores(r: Random) -> str:
    return "round,team,win,loss,score\n" + _lines(
        30,
        lambda i: f"{i},{r.choice(['red', 'blue'])},{r.randint(0, 9)},{r.randint(0, 9)},{r.randint(0, 120)}",
    )


def league(r: Random) -> str:
    return "| Team | Win | Loss | Rate |\n|---|---|---|---|\n" + _lines(
        12, lambda i: f"| Team {i} | {r.randint(0, 40)} | {r.randint(0, 40)} | {r.uniform(0, 1):.3f} |"
    )


def blood_loss(r: Random) -> str:
    return "patient,age,blood_loss_ml,operation_time_min\n" + _lines(
        30, lambda i: f"P{i:03d},{r.randint(20, 90)},{r.randint(50, 900)},{r.randint(30, 240)}"
    )


def hearing(r: Random) -> str:
    return _lines(
        20,
        lambda i: (
            f"{125 * (i + 1)} Hz: hearing loss {r.uniform(0, 60):.1f} dB left, {r.uniform(0, 60):.1f} dB right"
        ),
    )


def transformer_station(r: Random) -> str:
    return _lines(
        30,
        lambda i: (
            f"{_date(i)} T{i % 3} core loss={r.uniform(1, 9):.2f}kW copper loss={r.uniform(1, 9):.2f}kW load={r.uniform(10, 90):.0f}%"
        ),
    )


def settings(r: Random) -> str:
    return (
        json.dumps(
            {
                "loss": "cross_entropy",
                "lr": r.uniform(0, 1),
                "steps": r.randint(1, 9999),
                "epochs": r.randint(1, 99),
                "warmup": 100,
            },
            indent=2,
        )
        + "\n"
    )


def settings_of_flags(r: Random) -> str:
    return f"Namespace(lr={r.uniform(0, 1):.4f}, loss_weight={r.uniform(0, 1):.2f}, epochs={r.randint(1, 99)}, step=0, val_loss_patience=3)\n"


def manifest(r: Random) -> str:
    return (
        json.dumps(
            {"shards": [{"shard": i, "tokens": r.randint(10**6, 10**8), "error": 0} for i in range(20)]},
            indent=1,
        )
        + "\n"
    )


def requirements(r: Random) -> str:
    return _lines(20, lambda i: f"package-{i}=={r.randint(0, 9)}.{r.randint(0, 30)}.{r.randint(0, 9)}")


def changelog(r: Random) -> str:
    return _lines(
        12,
        lambda i: (
            f"- {r.randint(0, 3)}.{i}.0: loss of precision in step {i} fixed; lr: {r.uniform(0, 1):.3f} is the default"
        ),
    )


def readme(r: Random) -> str:
    quoted = _lines(r.randint(2, 4), lambda i: f"epoch {i + 1} loss {r.uniform(1, 4):.2f}")
    return f"# tool-{r.randint(1, 99)}\n\nA tool that prints\n\n```\n{quoted}```\n\nInstall it with pip.\n"


def http_iterations(r: Random) -> str:
    return _lines(
        30,
        lambda i: (
            f"iteration {i}: http_req_duration avg={r.uniform(1, 90):.2f}ms rate={r.uniform(1, 9):.2f}/s"
        ),
    )


def variants_csv(r: Random) -> str:
    return "variant,users,conversion,loss\n" + _lines(
        30, lambda i: f"{i},{r.randint(1, 99)},{r.uniform(0, 1):.3f},{r.uniform(0, 1):.3f}"
    )


def results_of_settings(r: Random) -> str:
    return _lines(
        9,
        lambda i: (
            f"Activation: ReLU, Learning Rate: {r.choice([0.1, 0.01, 0.001])}, Dropout Rate: {r.uniform(0, 0.5):.1f}\n"
            f"Final Train Accuracy: {r.uniform(80, 99)}, Final Test Accuracy: {r.uniform(80, 95)}\n"
            f"Final Train Loss: {r.uniform(40, 400)}\n"
        ),
    )


def curve_of_checkpoints(r: Random) -> str:
    return _lines(20, lambda i: f"path: out/checkpoint-{10 * i}, Loss AUC: {r.uniform(0.5, 1)}")


def embedding_that_is_drawn(r: Random) -> str:
    return "[t-SNE] Computing 91 nearest neighbors...\n" + _lines(
        9,
        lambda i: (
            f"[t-SNE] Iteration {50 * i + 50}: error = {r.uniform(1, 90):.7f}, gradient norm = {r.uniform(0, 1):.7f}"
        ),
    )


KINDS: dict[str, Kind] = {
    name: kind
    for name, kind in globals().items()
    if callable(kind) and not name.startswith("_") and name.islower() and kind.__module__ == __name__
}
TEXTS: dict[str, str] = {
    f"{name}-{seed}": kind(Random(f"{name}-{seed}")) for name, kind in KINDS.items() for seed in range(8)
}
