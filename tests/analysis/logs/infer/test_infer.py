"""Formats inferred: prefixes that change nothing, real logs whose format is hidden, and text that is no log."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.logs import formats, infer, regex_engine
from gputel.analysis.logs.lines import Splitter
from gputel.analysis.logs.log import Log
from gputel.analysis.logs.parser import Parser

REAL_LOGS = Path(__file__).resolve().parents[5] / "shared" / "logs"
LOGS = sorted((Path(__file__).resolve().parents[3] / "logs" / "inferred").glob("*.log"))


def clean(log: bytes) -> bytes:
    splitter = Splitter()
    return b"".join(chunk.data for chunk in [*splitter.feed(log), *splitter.finish()])


def read(log: bytes, known: formats.Format) -> tuple[pl.DataFrame, pl.DataFrame]:
    parser = Parser((known,), regex_engine.read)
    parser.feed(log)
    parser.finish()
    steps = parser.records.steps.frame(("line", "step", "loss"))
    return steps, parser.records.evaluations.rows.frame(("line", "step", "name", "value"))


def count(known: formats.Format, log: bytes) -> tuple[int, int]:
    """Lines that the format reads, and those that look like its own."""
    reading = regex_engine.read(log, known.patterns)
    hits = sum(len(hit.lines) for hit in reading.hits)
    return hits, hits + len(reading.rejects)


def inferred(log: bytes) -> tuple[pl.DataFrame, pl.DataFrame]:
    found = infer.infer(clean(log))
    assert found is not None
    return read(log, found.format)


def rank(log: str) -> str:
    return re.sub(r"(?m)^(?=.)", "[rank0]: ", log)


def host(log: str) -> str:
    return re.sub(r"(?m)^(?=.)", "node-12: ", log)


def stamped(log: str) -> str:
    return re.sub(r"(?m)^(?=.)", "2024-03-01T10:00:07.123456789Z ", log)


def colored(log: str) -> str:
    return log.replace("loss", "\x1b[1;32mloss\x1b[0m")


def crlf(log: str) -> str:
    return log.replace("\n", "\r\n")


@pytest.mark.parametrize("dress", [rank, host, stamped, colored, crlf], ids=lambda dress: str(dress.__name__))
@pytest.mark.parametrize("path", LOGS, ids=lambda path: str(path.stem))
def test_prefixes_colors_and_line_ends_change_nothing(path: Path, dress: Callable[[str], str]) -> None:
    dressed, _ = inferred(dress(path.read_bytes().decode()).encode())
    assert dressed.select("step", "loss").equals(plain_steps(path).select("step", "loss"))


@cache
def plain_steps(path: Path) -> pl.DataFrame:
    return inferred(path.read_bytes())[0]


COUNTS = ("train", "epoch_records", "epochs_with_loss")
LARGE = 500_000  # bytes, of which the format is inferred for seconds
NAMED_ABOVE_A_BAR = "ultralytics/yolo11n-15epochs.log"  # a heading over a bar is read by its own format only


@cache
def truths() -> list[dict[str, Any]]:
    if not REAL_LOGS.is_dir():
        return []
    entries = [json.loads(line) for line in (REAL_LOGS / "truth.jsonl").read_text().splitlines()]
    others = ("gpu", "nvidia")
    return [e for e in entries if not e["framework"].startswith(others) and e["path"] != NAMED_ABOVE_A_BAR]


def entries() -> list[Any]:
    large = {e["path"] for e in truths() if (REAL_LOGS / e["path"]).stat().st_size > LARGE}
    return [
        pytest.param(e, id=e["path"], marks=[pytest.mark.long] if e["path"] in large else [])
        for e in truths()
    ]


@pytest.mark.real_logs
@pytest.mark.parametrize("entry", entries())
def test_inferred_format_reads_the_counted_records_of_a_real_log(entry: Any) -> None:
    counted = entry["ground_truth"]
    truth = next((counted[key] for key in COUNTS if isinstance(counted.get(key), dict)), {"n": 0})
    log = (REAL_LOGS / entry["path"]).read_bytes()
    found = infer.infer(clean(log))
    steps = read(log, found.format)[0] if found else pl.DataFrame({"step": [], "loss": []})
    assert steps.height == truth["n"]
    for key, at in (("first", 0), ("last", -1)):
        for column in ("step", "loss"):
            if truth.get(f"{key}_{column}") is not None:
                assert steps[column].drop_nulls()[at] == truth[f"{key}_{column}"]


@pytest.mark.parametrize(
    ("name", "average"),
    [("Avg Loss", "Avg Loss"), ("running loss", "running loss"), ("loss", None), ("batch mean loss", None)],
)
def test_loss_that_is_a_running_average_is_said_in_the_summary(name: str, average: str | None) -> None:
    found = infer.infer("".join(f"step {i}, {name}: {9 / i:.4f}\n" for i in range(1, 30)).encode())
    assert found is not None
    assert found.average == average
    assert ("running average" in found.understood(29, 29)) == (average is not None)


def test_current_loss_beside_its_average_is_no_running_average() -> None:
    found = infer.infer(
        "".join(f"step {i} loss {9 / i:.4f} avg_loss {10 / i:.4f}\n" for i in range(1, 30)).encode()
    )
    assert found is not None
    assert found.average is None


def test_understood_summarizes_the_format_in_one_line() -> None:
    log = clean(b"".join(b"it=%05d >> nll %.4f\n" % (i, 9 / (i + 1)) for i in range(1200)))
    found = infer.infer(log)
    assert found is not None
    assert found.understood(*count(found.format, log)) == (
        'inferred (1 metric, step = "it"), 1,200 of 1,200 candidate lines'
    )


def test_understood_names_what_evaluations_give_where_nothing_else_was_inferred() -> None:
    log = clean(
        b"".join(b"Evaluation at iteration %d: val_loss = %.4f\n" % (i, 9 / (i + 1)) for i in range(20))
    )
    found = infer.infer(log)
    assert found is not None
    assert found.understood(*count(found.format, log)) == (
        'inferred (evaluations only: val_loss, step = "Evaluation at iteration"), 20 of 20 candidate lines'
    )


def test_torn_record_is_a_reject_and_not_a_shape() -> None:
    lines = [b"it=%05d >> nll %.4f ~ lr 3e-4" % (i, 9 / (i + 1)) for i in range(200)]
    lines[77] = lines[77][:20]
    lines[99] = lines[99].replace(b"nll ", b"nll ?")
    log = b"\n".join(lines)
    found = infer.infer(log)
    assert found is not None
    assert count(found.format, log) == (198, 200)


def test_record_that_lacks_something_at_the_start_is_one() -> None:
    lines = [b"it=0 nll 9.5", *(b"it=%d nll %.4f lr 3e-4" % (i, 9 / (i + 1)) for i in range(1, 200))]
    steps, _ = inferred(b"\n".join(lines))
    assert steps.height == 200
    assert steps["lr"].null_count() == 1


def test_loss_that_is_nan_is_a_value() -> None:
    lines = [b"it=%d nll %b lr 3e-4" % (i, b"nan" if i > 50 else b"%.3f" % (9 / (i + 1))) for i in range(100)]
    steps, _ = inferred(b"\n".join(lines))
    assert steps.height == 100
    assert steps["loss"].is_nan().sum() == 49


@pytest.mark.parametrize(
    ("span", "seconds"),
    [("1h 42m 3s", 6123), ("0m 30s", 30), ("2 m, 5 s", 125), ("1 minute and 4.5 seconds", 64.5)],
)
def test_duration_that_is_spelt_out_is_one_value(span: str, seconds: float) -> None:
    steps, _ = inferred("\n".join(f"it={i} nll {9 / (i + 1):.4f} took {span}" for i in range(60)).encode())
    assert steps["dt_ms"].to_list() == [seconds * 1000] * 60


def test_another_kind_of_line_that_begins_like_a_record_is_no_reject() -> None:
    lines = [f"step {i}, policy=2.{i:02d} total={9 / (i + 1):.4f}" for i in range(60)]
    lines.insert(30, "step 30, policy=7.69 training accuracy=1.13%, error=0.46")
    log = clean("\n".join(lines).encode())
    found = infer.infer(log)
    assert found is not None
    assert count(found.format, log) == (60, 60)


@pytest.mark.parametrize(("epoch", "records"), [("", 40), ("Epoch 3 ", 1)])
def test_bar_of_an_unknown_kind_counts_its_last_redraws(epoch: str, records: int) -> None:
    """One record per epoch where it names one, else one per count; the redraws are partial rows."""
    redraws = [f"{epoch}[{'=' * i}>{'.' * (39 - i)}] {i + 1}/40 loss={9 / (i + 1):.3f}" for i in range(40)]
    steps, _ = inferred("\r".join(redraws).encode())
    assert steps.height == records
    assert (steps["step"][-1], steps["loss"][-1]) == (3 if epoch else 40, 0.225)


def test_places_that_are_glued_to_a_letter_are_places() -> None:
    """And the time that an epoch took is no evaluation."""
    lines = [
        f"[E{e:02d} B{i:04d}/0938] ce={9 / (e * 10 + i):.4f} lr=3.0e-04"
        for e in (1, 2)
        for i in range(0, 938, 90)
    ]
    steps, evals = inferred("\n".join([*lines[:11], "done in 12.3s", *lines[11:], "done in 12.1s"]).encode())
    assert steps["step"].to_list() == [e * 938 + i for e in (0, 1) for i in range(0, 938, 90)]
    assert evals.is_empty()


@pytest.mark.parametrize("tables", [1, 2, 3])
def test_box_of_names_and_values_is_a_record_however_few_there_are(tables: int) -> None:
    box = "| rollout/  |   |\n|    ep_rew_mean | {0}.5 |\n|    iterations | {0} |\n|    loss | 0.{0} |\n"
    steps, _ = inferred("".join(f"-----\n{box.format(i)}-----\n" for i in range(1, tables + 1)).encode())
    assert steps.select("step", "loss", "ep_rew_mean").rows() == [
        (i, i / 10, i + 0.5) for i in range(1, tables + 1)
    ]


def test_lines_that_say_their_iteration_are_records_of_their_own_within_one_step() -> None:
    """As litgpt prints them while it accumulates gradients."""
    lines = [
        f"Epoch 1 | iter {i} step {i // 4} | loss train: {9 / i:.3f}, val: n/a | iter time: 30{i}.42 ms"
        + " (step)" * (i % 4 == 0)
        for i in range(1, 7)
    ]
    steps, _ = inferred("\n".join(lines).encode())
    assert steps["step"].to_list() == [0, 0, 0, 1, 1, 1]


def test_loss_of_an_epoch_beside_that_of_its_evaluation_is_the_loss(read: Callable[[str], Log]) -> None:
    """As the notebooks of PEFT print it, with tensors in place of numbers."""
    loss = "{0}_ppl=tensor({1:.4f}, device='cuda:0') {0}_epoch_loss=tensor({2:.4f}, device='cuda:0')"
    lines = [
        f"epoch={e}: {loss.format('train', 99 / (e + 1), 5 / (e + 1))} {loss.format('eval', 9, 2)}\n"
        for e in range(5)
    ]
    log = read("".join(lines))
    assert log.records.select("step", "loss").rows() == [(e, round(5 / (e + 1), 4)) for e in range(5)]
    assert log.evals.filter(name="val_loss")["value"].to_list() == [2.0] * 5


def test_learned_format_reads_the_log_again() -> None:
    log = LOGS[0].read_bytes()
    found = infer.infer(clean(log))
    assert found is not None
    assert "[[lines]]" in found.text
    again = formats.load(found.text, "mine", "mine.toml")
    assert read(log, again)[0].equals(read(log, found.format)[0])


@pytest.mark.parametrize(
    "text",
    [
        "learning_rate = 6e-4\nmax_iters = 600000\nloss = mse\n",
        '{"lr": 0.0003, "batch_size": 32, "loss": "mse"}\n',
        "".join(f"[Rank {rank}] lr = 0.001, loss scale = 65536\n" for rank in range(8)),
        "".join(f"print(f'step {{step}} | loss {{loss:.{n}f}}')\n" for n in range(20)),
        "".join(f"Channel {n:02d}/32 : 0 1 2 3 4 5 6 {n}\n" for n in range(32)),
        "".join(f"-rw-r--r-- 1 root root {n * 4096} Mar  1 10:{n:02d} shard_{n:05d}.bin\n" for n in range(40)),
        "".join(f"Get: {n}%|{'#' * (n // 10):10}| {n}/100 [00:{n:02d}<01:00, 24.1MB/s]\n" for n in range(60)),
        "",
    ],
    ids=["settings", "json", "ranks", "source", "nccl", "files", "download", "nothing"],
)  # fmt: skip
def test_text_that_is_no_training_has_no_format(text: str) -> None:
    assert infer.infer(text.encode()) is None


@given(st.binary(max_size=400), st.integers(0, 40))
def test_junk_lines_do_not_change_records(junk: bytes, at: int) -> None:
    lines = [b"it=%05d >> nll %.4f ~ lr 3e-4" % (i, 9 / (i + 1)) for i in range(60)]
    lines.insert(at, re.sub(rb"it=|nll|lr|[\r\n\x08]", b"", junk))
    steps, _ = inferred(b"\n".join(lines))
    assert set(range(60)) <= set(steps["step"].to_list())


@given(st.text(alphabet="step los=:|,.0123456789e-[](){}'\"<>\n\t%/#", max_size=600))
def test_no_text_crashes_it_and_whatever_it_finds_can_be_read(text: str) -> None:
    log = clean(text.encode())
    found = infer.infer(log)
    if found:
        hits, candidates = count(found.format, log)
        assert 0 < hits <= candidates


def test_counter_below_the_last_record_is_no_step_of_it() -> None:
    """A dump at the end of a run has counters of its own."""
    loss = "[0%] Loss: {:.5f} -- average of 0.{}\n[49, {}, 38, 56, 1]\n"
    records = "".join(loss.format(9 / i, i, i) for i in (1, 2, 3))
    steps, _ = inferred((records + "".join(f"layer={i} 0.{i}\n" for i in (1, 2, 3))).encode())
    assert steps.select("step", "loss").rows() == [(None, 9.0), (None, 4.5), (None, 3.0)]


@pytest.mark.parametrize("line", ["after cycle={0} avg(utility)={1:.3f}", "Generation {0}: fitness {1:.3f}"])
def test_utility_for_each_cycle_is_a_record_where_nothing_is_a_loss(line: str) -> None:
    steps, _ = inferred("".join(line.format(i, 9 / (i + 1)) + "\n" for i in range(9)).encode())
    assert steps["step"].to_list() == list(range(9))


def test_rewards_in_two_states_are_records_both() -> None:
    line = "TIMESTEP {} / STATE {} / EPSILON 0.{} / REWARD {:.1f}\n"
    log = [line.format(1000 + i, "observe" if i < 6 else "train", 9 - i, i / 5) for i in range(9)]
    steps, _ = inferred("".join(log).encode())
    assert steps.height == 9


def test_header_below_which_the_run_stopped_is_no_record_of_rewards() -> None:
    head, body = "\n ****** Running generation {} ****** \n\n", "Best fitness: {:.5f} - size: (1, 3)\n"
    log = "".join(head.format(i) + body.format(3.5 + i % 4) for i in range(6))
    steps, _ = inferred((log + head.format(6)).encode())
    assert steps.select("step", "Best_fitness").rows() == [(i, 3.5 + i % 4) for i in range(6)]


def test_metadata_of_a_loaded_checkpoint_is_no_record(read: Callable[[str], Log]) -> None:
    meta = "{'iteration': 27, 'train_loss': 1.487, 'policy_loss': 1.451, 'lr': 0.001, 'grad_norm': 0.1}"
    assert read(f"Loaded checkpoints/best.pt  meta={meta}\nwalls in top-10: 6\n").is_empty
    assert read(f"Finished best.pt  meta={meta}\nwalls in top-10: 6\n").records.height == 1


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("hellaswag @ {step}: acc 0.{score}", "hellaswag"),
        ("HellaSwag accuracy: {score}/10042=0.{score}", "hellaswag"),
        ("MMLU accuracy: {score}/10000 = 0.{score}", "MMLU_accuracy"),
    ],
)
def test_score_of_a_task_beside_the_validation_loss_is_an_evaluation(line: str, column: str) -> None:
    rows = []
    for step in range(1, 40):
        if step % 10 == 0:
            rows += [f"valid @ {step}: loss {3 - step / 100:.4f}", line.format(step=step, score=2900 + step)]
        rows.append(f"update {step}/300 | loss {3 - step / 90:.4f} | 1217 ms/update | lr 6.00e-04")
    _, evals = inferred("\n".join(rows).encode() + b"\n")
    scores = evals.filter(name=column)
    assert scores["value"].to_list() == [0.2910, 0.2920, 0.2930]
    assert scores["step"].to_list() == [10, 20, 30]


@pytest.mark.parametrize(
    ("header", "is_read"), [("Best model at step {}:", False), ("Model at step {}:", True)]
)
def test_block_about_the_best_model_is_no_record(header: str, is_read: bool) -> None:
    block = header + "\n  train loss: {:.2e}\n  test loss: {:.2e}\n"
    log = "".join(block.format(900 * i, 1 / i, 2 / i) for i in range(1, 6)).encode()
    assert (infer.infer(log) is not None) is is_read
