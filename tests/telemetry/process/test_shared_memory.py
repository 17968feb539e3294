"""Ledger and queue in shared memory: what goes in comes out, whichever process is killed."""

import os
import signal

from hypothesis import given
from hypothesis import strategies as st

from gputel.telemetry.clock import Stamp
from gputel.telemetry.process.shared_memory import Ledger, Ring

SIZE = 1 << 12


STEPS = st.lists(st.tuples(st.binary(max_size=1900), st.integers(0, 2500)), max_size=40)


def test_end_is_recorded_once_with_the_exit_code_of_a_shell() -> None:
    ledger = Ledger()
    assert (ledger.ended, ledger.exit_code) == (None, None)
    ledger.end(-signal.SIGTERM, Stamp(1, 2, 3))
    ledger.end(0, Stamp(4, 5, 6))
    assert (ledger.ended, ledger.status, ledger.exit_code) == (Stamp(1, 2, 3), -15, 143)


def test_end_of_a_process_that_is_not_ours_has_no_exit_code() -> None:
    ledger = Ledger()
    ledger.end(None, Stamp(1, 2, 3))
    assert (ledger.ended, ledger.exit_code) == (Stamp(1, 2, 3), None)


def drain(ring: Ring, limit: int) -> bytes:
    content = b"".join(ring.oldest(limit))
    ring.take(len(content))
    return content


@given(STEPS)
def test_bytes_come_out_in_the_order_they_went_in(steps: list[tuple[bytes, int]]) -> None:
    ring, put, got = Ring(SIZE), b"", b""
    for data, limit in steps:
        put += data if ring.put(data) else b""
        got += drain(ring, limit)
    assert got + drain(ring, SIZE) == put


@given(STEPS, st.binary(min_size=1, max_size=200))
def test_bytes_that_were_never_published_are_found_up_to_their_last_nul(
    steps: list[tuple[bytes, int]], lost: bytes
) -> None:
    ring = Ring(SIZE)
    for data, limit in steps:
        ring.put(data)
        drain(ring, limit)
    if sum(map(len, ring.room(len(lost)))) < len(lost):
        return
    start = 0
    for part in ring.room(len(lost)):
        part[:] = lost[start : start + len(part)]
        start += len(part)
    before = b"".join(ring.oldest(SIZE))
    assert ring.recover(ring.tail, 4096) == len(lost.rstrip(b"\0"))
    assert b"".join(ring.oldest(SIZE)) == before + lost.rstrip(b"\0")


@given(STEPS, st.integers(0, SIZE))
def test_bytes_written_but_not_taken_are_not_written_twice(
    steps: list[tuple[bytes, int]], written: int
) -> None:
    ring = Ring(SIZE)
    for data, limit in steps:
        ring.put(data)
        drain(ring, limit)
    content = b"".join(ring.oldest(SIZE))
    ring.recover(ring.tail + min(written, len(content)), 0)
    assert b"".join(ring.oldest(SIZE)) == content[written:]


@given(STEPS, st.binary(min_size=1, max_size=200), st.integers(0, SIZE))
def test_bytes_that_were_read_while_others_were_written_are_found(
    steps: list[tuple[bytes, int]], lost: bytes, written: int
) -> None:
    """The disk had taken all of the queue, or some, when its reader was killed: NUL bytes were found instead."""
    ring = Ring(SIZE)
    for data, limit in steps:
        ring.put(data)
        drain(ring, limit)
    room = ring.room(len(lost))
    if sum(map(len, room)) < len(lost):
        return
    for part in room:
        part[:], lost = lost[: len(part)], lost[len(part) :] + lost[: len(part)]
    content = b"".join(ring.oldest(SIZE))
    taken = min(written, len(content))
    drain(ring, taken // 2)
    start = ring.tail - taken // 2
    ring.recover(start + taken, 4096)
    assert b"".join(ring.oldest(SIZE)) == content[taken:] + lost.rstrip(b"\0")
    ring.forget_unpublished(SIZE)
    drain(ring, SIZE)
    assert not any(ring._data)


def test_another_process_sees_what_one_put_before_it_was_killed() -> None:
    ring = Ring(SIZE)
    pid = os.fork()
    if pid == 0:
        ring.put(b"last words")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert ring.copy(5, 100) == b"words"
    assert drain(ring, SIZE) == b"last words"
    assert ring.copy(5, 100) == b""
