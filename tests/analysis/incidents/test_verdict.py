"""Who holds up the others: each rule on ranks that stand as they would, and no verdict where something moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from gputel.analysis.incidents.process_states import standings
from gputel.analysis.incidents.verdict import HangVerdict, judge
from gputel.telemetry.inside.stacks import ChildrenFacts, Collective, FlightRecord, Frame, ProcessLook
from tests.analysis.incidents.processes import (
    ALL_REDUCE,
    BACKWARD,
    COMPUTES,
    IDLE,
    JOINS,
    LOADER,
    MAIN,
    OF_POOL,
    POOL,
    READS,
    TORCH,
    WAITS_FOR_PROGRAM,
    WORKER,
    later,
    process,
    with_threads,
    worker,
)


def stuck(*looks: ProcessLook) -> HangVerdict | None:
    """The verdict of three equal looks."""
    return judge(standings([looks, [later(each) for each in looks], [later(later(each)) for each in looks]]))


def waiting(*ranks: int, last: str = "all_reduce") -> list[ProcessLook]:
    return [process(rank, *ALL_REDUCE, last=last) for rank in ranks]


@pytest.mark.parametrize(
    ("looks", "kind", "sentence"),
    [
        (
            [*waiting(0, 2, 3), process(1, *READS)],
            "elsewhere",
            "rank 1 stands in data.py:6 slow_read; 3 ranks wait in all_reduce",
        ),
        (
            [*waiting(0, 2, 3), process(1, *READS, last="all_reduce", number=6)],
            "behind",
            "rank 1 stands in data.py:6 slow_read; 3 ranks wait in all_reduce",
        ),
        (
            [process(0, *BACKWARD), process(1, *READS)],
            "elsewhere",
            "rank 1 stands in data.py:6 slow_read; 1 rank waits in backward",
        ),
        (
            [*waiting(0), process(1, *LOADER), worker(1, *WORKER, *READS), worker(0, *IDLE)],
            "elsewhere",
            "a DataLoader worker of rank 1 (process 201) stands in data.py:6 slow_read; 1 rank waits in all_reduce",
        ),
        (
            [*waiting(0, 1), process(2, state="T")],
            "silent",
            "rank 2 is stopped (state T); 2 ranks wait in all_reduce",
        ),
        (
            [*waiting(0, 1), process(2, *READS, state="D")],
            "silent",
            "rank 2 waits for a disk or a file system (state D in futex_do_wait) "
            "and stands in data.py:6 slow_read; 2 ranks wait in all_reduce",
        ),
        (
            [*waiting(0, 1), *waiting(2, last="all_gather")],
            "mismatched",
            "rank 2 stands in train.py:31 main; 2 ranks wait in all_reduce",
        ),
        (
            [*waiting(0), *waiting(1, last="all_gather")],
            "mismatched",
            "ranks wait apart: rank 0 in all_reduce #7 and rank 1 in all_gather #7",
        ),
        (
            [process(rank, *READS) for rank in range(4)],
            "together",
            "all 4 ranks stand in data.py:6 slow_read",
        ),
        ([process(None, *READS, world=None)], "together", "the process stands in data.py:6 slow_read"),
        (
            [process(0), process(1, *READS)],
            "scattered",
            "the ranks stand apart: 1 in train.py:31 main, 1 in data.py:6 slow_read",
        ),
    ],
)
def test_verdict_names_the_rank_and_its_line(looks: list[ProcessLook], kind: str, sentence: str) -> None:
    verdict = stuck(*looks)
    assert verdict
    assert (verdict.kind, verdict.sentence) == (kind, sentence)
    assert verdict.evidence


def in_groups(rank: int, *frames: Frame, **entered: int) -> ProcessLook:
    """A rank and the number of the last collective that it has entered in each group."""
    looked = process(rank, *frames)
    last = tuple(Collective(group, number, "all_reduce", "[[4]]") for group, number in entered.items())
    return replace(looked, flight=FlightRecord(last))


def test_rank_that_waits_in_another_group_is_not_blamed_for_being_behind() -> None:
    """Ranks 0 and 1 wait in their groups of data parallelism, rank 2 for rank 3 in that of tensor parallelism."""
    verdict = stuck(
        in_groups(0, *ALL_REDUCE, data_0=6, tensor_0=7),
        in_groups(1, *ALL_REDUCE, data_1=6, tensor_0=7),
        in_groups(2, *ALL_REDUCE, data_0=5, tensor_1=7),
        in_groups(3, *READS, data_1=5, tensor_1=6),
    )
    assert verdict
    assert verdict.sentence == "rank 3 stands in data.py:6 slow_read; 3 ranks wait in all_reduce"
    assert "rank 3 has entered all_reduce #6 of group tensor_1 last" in verdict.evidence or (
        "rank 3 has entered all_reduce #5 of group data_1 last" in verdict.evidence
    )


def test_rank_that_all_others_wait_for_in_turn_is_named_by_its_groups_alone() -> None:
    """Each stands in a collective; rank 2 alone has entered fewer in each of its groups."""
    verdict = stuck(
        in_groups(0, *ALL_REDUCE, first=7),
        in_groups(1, *ALL_REDUCE, first=6, second=7),
        in_groups(2, *ALL_REDUCE, second=6),
    )
    assert verdict
    assert verdict.rank == 2


def test_thread_that_trains_is_named_where_the_main_one_waits_for_its_end() -> None:
    alone = process(None, *JOINS, world=None)
    verdict = stuck(with_threads(alone, READS, LOADER))
    assert verdict
    assert verdict.sentence == "the process stands in data.py:6 slow_read"
    several = stuck(with_threads(alone, READS, (MAIN,)))
    assert several
    assert several.sentence == "the process stands in train.py:31 main"


@pytest.mark.parametrize("wait", [JOINS, LOADER[1:]], ids=["join", "queue"])
def test_process_whose_other_thread_works_is_no_hang(wait: tuple[Frame, ...]) -> None:
    alone = process(None, *wait, world=None)
    looks = [[with_threads(alone, READS)], [with_threads(later(alone), COMPUTES)]]
    assert judge(standings(looks)) is None


@pytest.mark.parametrize(
    "last",
    [
        ChildrenFacts(frozenset({7}), 2.0, 0, 0),
        ChildrenFacts(frozenset({7}), 0.0, 2 << 20, 0),
        ChildrenFacts(frozenset({7}), 0.0, 0, 9),
        ChildrenFacts(frozenset({8}), 0.0, 0, 0),
    ],
    ids=["computes", "reads", "sends", "starts programs"],
)
def test_process_that_waits_for_a_program_which_works_is_no_hang(last: ChildrenFacts) -> None:
    """Such as a compiler, or an upload."""
    first = ChildrenFacts(frozenset({7}), 0.0, 0, 0)
    others, waits = waiting(0), later(process(1, *WAITS_FOR_PROGRAM), children=first)
    looks = [[*others, waits], [*map(later, others), later(waits, children=last)]]
    assert judge(standings(looks)) is None
    idle = judge(standings([looks[0], [*map(later, others), later(waits, children=first)]]))
    assert idle
    assert idle.sentence == "rank 1 stands in train.py:31 main; 1 rank waits in all_reduce"


def test_worker_of_a_pool_is_named_and_may_be_at_work() -> None:
    others, waits = waiting(0), process(1, *POOL)
    idle, busy = worker(1, *OF_POOL, LOADER[1]), replace(worker(1, *OF_POOL, *READS), pid=301)
    verdict = stuck(*others, waits, idle, busy)
    assert verdict
    assert verdict.sentence == (
        "a worker of rank 1 (process 301) stands in data.py:6 slow_read; 1 rank waits in all_reduce"
    )
    moved = [replace(later(busy), threads=worker(1, *OF_POOL, *COMPUTES).threads)]
    looks = [[*others, waits, idle, busy], [*map(later, (*others, waits, idle)), *moved]]
    assert judge(standings(looks)) is None


def test_rank_that_wakes_up_now_and_then_runs() -> None:
    """It polls for a file, or evaluates on a GPU: others wait for it, but alone it is left in peace."""
    waits, reads = process(0, *ALL_REDUCE), process(1, *READS)
    looks = [[waits, reads], [later(waits, wakeups=1), later(reads, wakeups=8)]]
    verdict = judge(standings(looks))
    assert verdict
    assert verdict.sentence == "rank 1 runs in data.py:6 slow_read; 1 rank waits in all_reduce"
    alone = process(None, *READS, world=None)
    assert judge(standings([[alone], [later(alone, wakeups=8)]])) is None
    assert judge(standings([[alone], [later(alone, wakeups=1)]])) is not None


def test_wakeups_are_those_of_the_thread_that_trains() -> None:
    alone = with_threads(process(None, *JOINS, world=None), READS)
    main, trains = later(alone).threads
    again = replace(later(alone, wakeups=1), threads=(main, trains._replace(wakeups=9)))
    before = replace(alone, threads=(main, trains._replace(wakeups=1)))
    assert judge(standings([[before], [again]])) is None
    assert judge(standings([[before], [replace(again, threads=before.threads)]])) is not None


def test_debugger_waits_for_a_person() -> None:
    debugger = Frame("/usr/lib/python3.11/pdb.py", 421, "Pdb._cmdloop")
    assert stuck(process(None, debugger, world=None)) is None
    forgotten = stuck(*waiting(0), process(1, debugger))
    assert forgotten
    assert forgotten.sentence == "rank 1 stands in train.py:31 main; 1 rank waits in all_reduce"


def test_launcher_is_not_blamed() -> None:
    agent = process(None, Frame(f"{TORCH}/distributed/elastic/agent/server/api.py", 9, "_monitor"), pid=99)
    verdict = stuck(agent, *waiting(0, 1), process(2, *READS))
    assert verdict
    assert verdict.rank == 2


@pytest.mark.parametrize(
    "last",
    [
        lambda look: later(look, *COMPUTES),
        lambda look: later(look, io_bytes=2 << 20),
    ],
    ids=["other frames", "reads"],
)
def test_rank_that_moves_is_no_hang(last: object) -> None:
    others, slow = waiting(0, 2), process(1, *READS)
    assert callable(last)
    looks: list[Sequence[ProcessLook]] = [[*others, slow], [*map(later, others), last(slow)]]
    assert judge(standings(looks)) is None


def test_stopped_process_has_the_rank_that_is_missing() -> None:
    """It cannot be asked, and learned its rank only after its start."""
    silent = process(None, pid=300, state="T", world=None)
    verdict = stuck(*waiting(0, 1, 3), replace(silent, answered_by=None))
    assert verdict
    assert verdict.sentence == "rank 2 is stopped (state T); 3 ranks wait in all_reduce"


def test_rank_that_computes_in_a_library_is_no_hang() -> None:
    busy = process(1, *COMPUTES)
    assert judge(standings([[*waiting(0), busy], [*map(later, waiting(0)), later(busy, cpu_s=2.0)]])) is None


def test_loop_of_the_program_is_a_hang_although_it_computes_on_several_lines() -> None:
    first, second = (Frame("/me/train.py", line, "spin") for line in (8, 9))
    loop = process(1, first)
    verdict = judge(
        standings([[*waiting(0), loop], [*map(later, waiting(0)), later(loop, second, cpu_s=2.0)]])
    )
    assert verdict
    assert (verdict.rank, verdict.place) == (1, second)
    assert verdict.sentence == "rank 1 runs in train.py:9 spin; 1 rank waits in all_reduce"


def test_process_that_computes_alone_may_be_at_work() -> None:
    alone = process(None, *READS, world=None)
    assert judge(standings([[alone], [later(alone, cpu_s=2.0)]])) is None


def test_cost_of_the_answer_is_not_taken_for_a_loop() -> None:
    """The looks are near to each other."""
    alone = process(None, *READS, world=None)
    again = replace(later(alone, cpu_s=0.02), at_s=0.2)
    verdict = judge(standings([[alone], [again]]))
    assert verdict
    assert verdict.sentence == "the process stands in data.py:6 slow_read"


def test_one_look_has_no_verdict() -> None:
    assert judge(standings([[*waiting(0), process(1, *READS)]])) is None


def test_training_that_a_person_has_stopped_is_no_hang() -> None:
    assert stuck(*(process(rank, state="T") for rank in range(4))) is None
    assert stuck() is None
