"""A log reads the same behind what docker, kubectl, Ray and others put before each of its lines."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gputel
from gputel.analysis.logs import carriers
from gputel.analysis.logs.lines import Chunk, Splitter, keep
from gputel.analysis.logs.log import Log
from gputel.analysis.logs.parser import make_parser

KERAS = "".join(
    f"Epoch {epoch}/4\n250/250 [==============================] - 64{epoch}s 3s/step"
    f" - loss: {9 / epoch:.4f} - val_loss: {8 / epoch:.4f}\n"
    for epoch in range(1, 5)
)
YOLO = "".join(
    "      Epoch    GPU_mem   box_loss   obj_loss   cls_loss  Instances       Size\n"
    f"       {epoch}/3      1.2G     0.{9 - epoch}04    0.08466    0.07719        286        640: 100%|####| 7/7\n"
    "                 Class     Images  Instances          P          R      mAP50   mAP50-95: 100%|####| 1/1\n"
    f"                   all         20        262      0.{epoch}7      0.824      0.{epoch}99      0.458\n"
    for epoch in range(4)
)
EPOCHS = "".join(
    f"Эпоха {epoch}/9\nTrain Loss: {3 / epoch:.4f} | Val Loss: {4 / epoch:.4f}\n" for epoch in range(1, 10)
)
LOGS = {"Keras": KERAS, "YOLO": YOLO, "homemade": EPOCHS}
SECOND = "2026-03-05T10:20:{:02}.123456789Z "
CARRIERS: dict[str, str] = {
    "docker": SECOND,
    "kubectl": "[pod/train-worker-0/pytorch] ",
    "kubectl with times": "[pod/train-worker-0/pytorch] " + SECOND,
    "a node's file": "2026-03-05T10:20:{:02}.123456789+00:00 stdout F ",
    "journald": "Mar 05 10:20:{:02} gpu01 python[48213]: ",
    "syslog": "2026-03-05T10:20:{:02}.123456+00:00 gpu01 python[48213]: ",
    "Ray": "\x1b[36m(RayTrainWorker pid=19443)\x1b[0m ",
    "Ray on nodes": "(RayTrainWorker pid=19443, ip=10.0.3.17) ",
    "SkyPilot": "(worker1, rank=1, pid=321, ip=10.0.0.2) ",
    "torchrun": "[default0]:",
    "rank": "[rank0]: ",
    "mpirun": "[1,0]<stdout>:",
    "mpirun with times": "Thu Mar  5 10:20:{:02} 2026[1,0]<stdout>:",
    "SageMaker": "[1,mpirank:0,algo-1]<stderr>:",
}


def figures(log: Log) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    records = [name for name in log.records.columns if name not in ("time", "rank")]
    return log.records.select(records).rows(), log.evals.select("name", "step", "value", "line").rows()


def carried(text: str, carrier: str) -> str:
    return "".join(carrier.format(at % 60) + line for at, line in enumerate(text.splitlines(keepends=True)))


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("log", LOGS)
def test_carried_log_gives_the_figures_of_the_bare_one(
    log: str, carrier: str, read: Callable[[str], Log]
) -> None:
    bare = read(LOGS[log])
    assert bare.records.height
    assert bare.evals.height
    assert figures(read(carried(LOGS[log], CARRIERS[carrier]))) == figures(bare)


@pytest.mark.parametrize("carrier", ["docker", "journald", "mpirun with times"])
def test_time_of_a_record_is_that_of_its_carrier(carrier: str, read: Callable[[str], Log]) -> None:
    times = read(carried(EPOCHS, CARRIERS[carrier])).records["time"].to_list()
    assert [time and (time.hour, time.minute, time.second) for time in times] == [
        (10, 20, second) for second in range(1, 18, 2)
    ]


def test_carrier_of_some_lines_is_cut_from_these_only(read: Callable[[str], Log]) -> None:
    some = "".join(
        (CARRIERS["Ray"] if at % 4 else "") + line for at, line in enumerate(EPOCHS.splitlines(keepends=True))
    )
    assert figures(read(some)) == figures(read(EPOCHS))


def test_event_keeps_what_stands_before_its_line(read: Callable[[str], Log]) -> None:
    log = read(carried(EPOCHS + "torch.OutOfMemoryError: CUDA out of memory.\n", "[rank3]: "))
    assert log.status == "failed"
    assert log.cause
    assert log.cause.text.startswith("[rank3]: torch.OutOfMemoryError")


def test_record_that_begins_with_a_bracket_is_no_carrier() -> None:
    text = b"[1, 200] loss: 1.5\n(3) loss 2.5\n[rank] loss 2\n2026-03-05 10:20:30 step 3\n[1,0] loss 2\n"
    (chunk,) = Splitter().feed(text)
    assert carriers.cut(chunk) is chunk


def test_pieces_of_a_carried_log_give_the_rows_of_the_whole(conclude: Callable[..., Log]) -> None:
    data = carried(EPOCHS, CARRIERS["kubectl with times"]).encode()
    readings = []
    for size in (7, 64, len(data)):
        parser = make_parser()
        for start in range(0, len(data), size):
            parser.feed(data[start : start + size])
        parser.finish()
        readings.append((figures(conclude(parser)), parser.began()))
    assert readings[0] == readings[1] == readings[2]
    assert readings[0][1] is not None


def test_heads_stay_with_their_lines_where_chunks_are_cut_and_joined() -> None:
    data = carried("".join(f"step {i} loss 2.5\n" for i in range(40)), CARRIERS["docker"]).encode()
    (whole,) = map(carriers.cut, Splitter().feed(data))
    first, second = whole.cut(200)
    heads = [part.head(line) for part in (first, second) for line in range(part.data.count(b"\n"))]
    assert heads == [whole.head(line) for line in range(40)]
    assert first.data + second.data == data
    assert first.texts() + second.texts() == whole.texts()
    kept: list[Chunk] = []
    for part in (first, second):
        keep(kept, part)
    assert [chunk.head(line) for chunk in kept for line in range(chunk.data.count(b"\n"))] == heads
    assert b"".join(chunk.texts() for chunk in kept) == whole.texts()


BEGINNINGS = (
    *(
        "[rank0]:",
        "[rank0]: ",
        "[rank12]: ",
        "[rank0]:: ",
        "[rank 1] ",
        "[default0]:",
        "[pod/a/b]",
        "[1,0]",
        "x",
        " ",
    ),
    *(
        "(a pid=1) ",
        "(b, pid=22)",
        "[1,0]<stdout>:",
        "2026-03-01T10:00:00.123456789Z ",
        "2026-03-01T10:00:00Z\t",
    ),
    "Mar  1 10:00:00 host app[1]: ",
)


@given(st.lists(st.lists(st.sampled_from(BEGINNINGS), max_size=3).map("".join), min_size=1, max_size=30))
def test_heads_measured_together_are_those_of_each_line(printed: list[str]) -> None:
    data = "".join(f"{line}loss 2.5\n" for line in printed).encode()
    (chunk,) = Splitter().feed(data)
    cut = carriers.cut(chunk)
    alone = [carriers.cut(part) for line in data.splitlines(keepends=True) for part in Splitter().feed(line)]
    assert [cut.head(line) for line in range(len(printed))] == [each.head(0) for each in alone]
    assert cut.texts() == b"".join(each.texts() for each in alone)


def test_workers_of_ray_are_ranks(read: Callable[[str], Log]) -> None:
    """Each prints the same steps, one a little ahead of the others."""
    choice = random.Random(1)
    left = {pid: [f"epoch {epoch}, loss: {3 / epoch:.3f}" for epoch in range(1, 30)] for pid in (41, 43, 47)}
    printed = []
    while any(left.values()):
        most = max(map(len, left.values()))
        pid = choice.choice([pid for pid, lines in left.items() if lines and len(lines) >= most - 1])
        printed.append(f"(RayTrainWorker pid={pid}) {left[pid].pop(0)}\n")
    log = read("".join(printed))
    assert log.records.height == 87
    assert log.records["attempt"].unique().to_list() == [1]
    assert log.records["rank"].unique().sort().to_list() == ["41", "43", "47"]
    assert not log.doubts


def test_worker_that_ray_starts_anew_begins_an_attempt(read: Callable[[str], Log]) -> None:
    text = "".join(f"(RayTrainWorker pid=41) epoch {epoch}, loss: {3 / epoch:.3f}\n" for epoch in range(1, 9))
    text += "".join(
        f"(RayTrainWorker pid=77) epoch {epoch}, loss: {2 / epoch:.3f}\n" for epoch in range(5, 20)
    )
    log = read(text)
    assert log.records["attempt"].to_list() == [1] * 8 + [2] * 15
    assert log.steps["step"].to_list() == list(range(1, 20))


def test_log_in_a_folder_is_carried_too(tmp_path: Path) -> None:
    """Small files of a folder are read together."""
    for name, carrier in (("a", "Ray"), ("b", "docker")):
        (tmp_path / f"{name}.log").write_text(carried(KERAS, CARRIERS[carrier]))
    assert [run.records.height for run in gputel.parse_all(tmp_path)] == [4, 4]
