"""One function over many items, on all cores where that pays: results in their order, even if a worker dies.

Workers are new processes, not forks, which would inherit the locks of polars' threads. A worker that dies takes its
whole pool with it: a new pool works on what is missing, until the item that kills is alone and can be named.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:  # with multiprocessing it takes 30 ms to import, and few commands spread anything
    from concurrent.futures import ProcessPoolExecutor

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[Sequence[Item]], Iterable[Result]]
Answer = tuple[list[Result], list[Warning | str]]

BATCHES = 4  # for each worker, so that none waits long for the last
POOLS = 3  # that may break before each item is worked on alone
TRIES_ALONE = 2
START_S = 0.7  # CPU that a worker spends before its first item, most of it to import polars
MOST_WASTED = 0.15  # share of the work, for starting workers
LOOK_S = 1.0  # CPU spent in this process before what is left is judged by the speed so far


def workers_for(cpu_s: float) -> int:
    """How many workers pay for themselves in work of so many seconds of CPU; 1 if none does."""
    most = int(cpu_s * MOST_WASTED / START_S)
    if most < 2:
        return 1
    from gputel.telemetry.host.cgroup import usable_cores

    return min(usable_cores(), most)


def spread_where_it_pays(
    work: Work[Item, Result],
    items: Sequence[Item],
    weigh: Callable[[Item], float],
    lost: Callable[[Item], Result],
    *,
    least_s: float = 0,
    from_afar: Callable[[Item], object] = bool,
) -> Iterator[Result]:
    """Yields the result of each item, made in this process until more of them pay for what is left.

    The work takes at least `least_s` of CPU; `from_afar` is called for each item that another process worked on.
    """
    sums = [0.0, *accumulate(map(weigh, items))]
    done, workers = 0, workers_for(least_s)
    if workers == 1:
        begun = time.process_time()
        for result in work(items):
            yield result
            done += 1
            spent = time.process_time() - begun
            if spent > LOOK_S:
                workers = workers_for(spent * (sums[-1] - sums[done]) / (sums[done] or 1))
                if workers > 1:
                    break
        else:
            return
    left = items[done:]
    for item, result in zip(left, spread(work, left, workers, weigh, lost), strict=True):
        from_afar(item)
        yield result


def spread(
    work: Work[Item, Result],
    items: Sequence[Item],
    workers: int,
    weigh: Callable[[Item], float],
    lost: Callable[[Item], Result],
) -> Iterator[Result]:
    """Yields the result of each item; `lost` makes that of an item which kills the process that works on it.

    `work` takes some of the items and gives a result for each; workers import the module that defines it.
    """
    batches = in_batches(items, workers * BATCHES, weigh)
    pools = _Pools(work, batches, workers)
    try:
        for place, batch in enumerate(batches):
            results = pools.result(place)
            if results is None:
                killers: list[Item] = []
                yield from _one_by_one(work, batch, lost, killers)
                if killers:
                    pools.begin_anew(place + 1)
            else:
                yield from results
    finally:
        pools.end()


def alike(_item: object) -> float:
    """The weight of items that take about equally long."""
    return 1


def in_batches(items: Sequence[Item], count: int, weigh: Callable[[Item], float]) -> list[list[Item]]:
    """Neighbors in batches of about equal weight."""
    sums = list(accumulate(weigh(item) for item in items))
    share = (sums[-1] if sums else 0) / count or 1
    numbered = zip((int(total // share) for total in sums), items, strict=True)
    return [[item for _, item in group] for _, group in groupby(numbered, key=lambda pair: pair[0])]


class _Pools(Generic[Item, Result]):
    """A pool of workers, and a new one for what is missing when it breaks."""

    def __init__(self, work: Work[Item, Result], batches: list[list[Item]], workers: int) -> None:
        self._work = work
        self._batches = batches
        self._workers = workers
        self._broken = 0
        self._futures: dict[int, Future[Answer[Result]]] = {}
        self._pool = _pool(workers)
        self._submit(0)

    def result(self, place: int) -> list[Result] | None:
        """The results of a batch; None if the pools broke too often to know them."""
        while True:
            try:
                return heard(self._futures[place].result())
            except BrokenExecutor:
                if self._broken == POOLS:
                    return None
                self._broken += 1
                if self._broken < POOLS:
                    self._begin(place)

    def begin_anew(self, place: int) -> None:
        """Works on what is missing from `place` on, as what broke the pools is behind."""
        self._broken = 0
        self._begin(place)

    def _begin(self, place: int) -> None:
        self._pool.shutdown()
        self._pool = _pool(self._workers)
        self._submit(place)

    def end(self) -> None:
        _end(self._pool)

    def _submit(self, first: int) -> None:
        """Submits each batch from `first` on that has no result."""
        for place in range(first, len(self._batches)):
            future = self._futures.get(place)
            if not (future and future.done() and not future.exception()):
                try:
                    self._futures[place] = self._pool.submit(work_off, self._work, self._batches[place])
                except BrokenExecutor as error:  # a worker died while this was submitted
                    self._futures[place] = Future()
                    self._futures[place].set_exception(error)


def _one_by_one(
    work: Work[Item, Result], batch: Sequence[Item], lost: Callable[[Item], Result], killers: list[Item]
) -> Iterator[Result]:
    """Adds those that kill twice to `killers`: the first time may be chance, such as memory that others took."""
    pool = _pool(1)
    try:
        for item in batch:
            for _ in range(TRIES_ALONE):
                try:
                    results = heard(pool.submit(work_off, work, [item]).result())
                    break
                except BrokenExecutor:
                    pool.shutdown()
                    pool = _pool(1)
            else:
                killers.append(item)
                results = [lost(item)]
            yield from results
    finally:
        _end(pool)


def work_off(work: Work[Item, Result], batch: Sequence[Item]) -> Answer[Result]:
    """The results, and what there was to warn of: the process that asked knows how to say it."""
    with warnings.catch_warnings(record=True) as caught:
        return list(work(batch)), [warning.message for warning in caught]


def heard(answer: Answer[Result]) -> list[Result]:
    results, messages = answer
    for message in messages:
        warnings.warn(message, stacklevel=2)
    return results


def _pool(workers: int) -> ProcessPoolExecutor:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin)


def _begin() -> None:
    """Makes a worker of this process: one thread of polars, an end with Ctrl-C or with its parent."""
    import multiprocessing

    os.environ["POLARS_MAX_THREADS"] = "1"
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _end(pool: ProcessPoolExecutor) -> None:
    """Ends a pool without waiting for work that is no longer wanted."""
    unwanted = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in unwanted:
        process.terminate()
