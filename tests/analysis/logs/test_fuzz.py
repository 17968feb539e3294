"""Whatever the bytes are, the parser ends, holds little, and both engines say the same of them."""

from __future__ import annotations

import random
import subprocess
import sys
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gputel.analysis.logs import numpy_engine, regex_engine, result, summary
from gputel.analysis.logs.log import Log
from gputel.analysis.logs.parser import make_parser
from gputel.analysis.logs.patterns import Engine

PRINTED = (
    b"step 00250/16704 (1.50%) | loss: 3.021154 | lrm: 1.00 | dt: 658.60ms | tok/sec: 796,060 | bf16_mfu: 49.75",
    b"Step 00250 | Validation bpb: 1.123456",
    b"[rank3]: iter 100: loss 4.5012, time 200.12ms, mfu -100.00%",
    b"{'loss': 3.2345, 'grad_norm': 1.2345678912345, 'learning_rate': 4.982078853046595e-05, 'epoch': 0.01}",
    b" 12%|#2        | 12/100 [00:09<01:06, 1.32it/s, loss=2.31, lr=0.0003]\r",
    b'{"step": 5, "loss": 1.5, "time": "2026-01-31T23:59:59.5Z"}',
    b"Epoch 3/10\n120/120 [==============================] - 3s 20ms/step - loss: 0.5 - val_loss: 0.61",
    b"2026-02-29 23:59:59,999 - INFO - level=info step=7 loss=nan lr=1e-05 tps=11.5K",
    b'Traceback (most recent call last):\n  File "train.py", line 3\nRuntimeError: CUDA out of memory.',
)
CHARACTERS = b"0123456789.,:;|=+-eE%/()[]{}'\"\\\t \r\n\x00\x08\x1b^[KMGnaif\xff\xc2"
ENDLESS = (
    *(
        b"1",
        b"1,",
        b"1.",
        b"1:",
        b"1e",
        b"0:",
        b"-",
        b"=",
        b"a",
        b"a=",
        b"(",
        b"[",
        b"{",
        b"| ",
        b", ",
        b'"',
        b"'",
    ),
    *(
        b" ",
        b"\t",
        b"\x1b[",
        b"^[[",
        b"\r",
        b"\x08",
        b"\x00",
        b"\xff",
        b"12%|",
        b"loss: ",
        b"loss=1 ",
        b"'loss': ",
    ),
    *(
        b"step 1 ",
        b"iter 1: ",
        b"Epoch 1/",
        b"rank",
        b"nan",
        b"Test: Acc@1 ",
        b"{'a': ",
        b"2026-01-01 ",
        b"eval_",
    ),
)


def parse(data: bytes, read: Engine = numpy_engine.read, piece: int = 1 << 22) -> Log:
    parser = make_parser()
    parser.engine = read
    for start in range(0, len(data), piece):
        parser.feed(data[start : start + piece])
    parser.finish()
    return result.conclude(parser, "noise", "noise.log")


def spoilt(data: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, doubled, cut out."""
    text = bytearray(data)
    for _ in range(rng.randrange(6)):
        at = rng.randrange(len(text) + 1)
        text[at : at + rng.choice((0, 0, 1, 9))] = bytes(rng.choices(CHARACTERS, k=rng.randrange(3)))
    return bytes(text)


@pytest.mark.long
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(PRINTED), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_engines_agree_on_spoilt_logs(lines: list[bytes], rng: random.Random) -> None:
    data = b"\n".join(spoilt(rng.choice(lines), rng) for _ in range(120))
    ours, theirs = parse(data), parse(data, regex_engine.read)
    assert list(summary.rows(ours)) == list(summary.rows(theirs))
    assert ours.rejects == theirs.rejects


@pytest.mark.parametrize("endless", ENDLESS)
def test_long_line_of_one_thing_is_read_to_its_end(endless: bytes) -> None:
    """What grew with the square of the length would take hours, and no test has them."""
    line = (endless * (1 << 18))[: 1 << 18]
    assert (parse(b"step 1: loss 2.0\n" + line + b"\nstep 2: loss 1.0\n").lines or 0) >= 3


def test_words_with_many_blanks_between_them_above_figures_are_read_to_their_end() -> None:
    figures = b"".join(b"reward %d.5, length %d\n" % (at, 800 - at) for at in range(9))
    assert parse(figures + b"A line" + b" " * 40_000 + b"of runs\n" + figures).lines == 19


@pytest.mark.parametrize("endless", [b"x", b"loss: 1 ", b"1", b"\x1b[", b"(", b"\r", b"{"])
def test_line_that_never_ends_is_not_kept(endless: bytes) -> None:
    piece = (endless * (1 << 21))[: 1 << 21]
    parser = make_parser()
    parser.feed(piece)
    tracemalloc.start()
    try:
        for _ in range(8):
            parser.feed(piece)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * len(piece)


@pytest.mark.parametrize(
    "line",
    [
        b"iter 99999999999999999999: loss 1.5, time 200.12ms, mfu 1.00%",
        b"step 00005/99999999999999999999 (1.0%) | loss: 1.5 | dt: 1.00ms",
        b"1013-03-01 10:00:01,250 - root - INFO - step:  1  loss:  8.02346  grad_norm:  2.1667",
        b"9999-12-31 23:59:59 step: 1 loss: 8.02 lr: 0.1",
    ],
)
def test_numbers_and_moments_beyond_64_bits_are_null(line: bytes) -> None:
    assert parse((line + b"\n") * 20).records.height >= 1


LINE_OF_A_GIGABYTE = """
import resource, sys
from gputel.analysis.logs import files

class Endless:
    def __init__(self, size, chunk):
        self.left, self.chunk = size, chunk

    def read(self, size=-1):
        piece = self.chunk[: min(self.left, len(self.chunk) if size < 0 else size)]
        self.left -= len(piece)
        return piece

def peak():
    status = open("/proc/self/status").read()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024

chunk = bytes.fromhex(sys.argv[2]) * (1 << 16)
warm = files.stream(Endless(1 << 24, chunk), "warm", "warm")
held = peak()
log = files.stream(Endless(int(sys.argv[1]), chunk), "x", "x")
print(peak() - held, log.lines, log.records.height)
"""


@pytest.mark.long
@pytest.mark.parametrize("chunk", [b"step 1 loss 2.5 ", b"\x1b[32m1", b"x"])
def test_line_of_a_gigabyte_is_read_in_little_memory(chunk: bytes) -> None:
    """In a process of its own, whose peak beyond that of a short line is what counts."""
    command = [sys.executable, "-c", LINE_OF_A_GIGABYTE, str(1 << 30), chunk.hex()]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    mib, lines, _ = map(int, answer.split())
    assert lines == 1
    assert mib < 32
