"""Who holds up the others, by what each process did over several looks; the first rule that holds.

silent      a rank is stopped, waits for a disk or does not answer
behind      a rank has entered fewer collectives than the others, by torch's flight recorder
mismatched  ranks have entered different collectives under one number
elsewhere   a rank is in no collective while others wait in one
together    all ranks stand in the same line; a single process stands where it stands
scattered   nothing of that: the groups of equal stacks are all there is to say
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from gputel.analysis.incidents import places
from gputel.analysis.incidents.process_states import STOPPED, Standing
from gputel.telemetry.inside.stacks import Collective, Frame

Kind: TypeAlias = Literal["silent", "behind", "mismatched", "elsewhere", "together", "scattered"]
Standings: TypeAlias = Sequence[Standing]

SAME_SIZES = ("all_reduce", "allreduce", "broadcast")
"""Collectives whose tensors have one size on all ranks."""


@dataclass(frozen=True)
class HangVerdict:
    """`standing` holds up the others, and may be a worker of `rank`; None where no rank can be named."""

    kind: Kind
    standing: Standing | None
    rank: int | None
    fault: str | None
    """Why it can do nothing, where its state says so."""
    waiting: tuple[str, ...]
    """What the other ranks wait in, one entry each."""
    evidence: tuple[str, ...]

    @property
    def place(self) -> Frame | None:
        """The line in which it stands; None if it gave no stack."""
        return self.standing.place if self.standing else None

    @property
    def sentence(self) -> str:
        """`rank 5 stands in ddp.py:6 slow_shared_filesystem; 7 ranks wait in all_reduce`"""
        return "; ".join(filter(None, (self._holder(), self._others())))

    def _holder(self) -> str:
        if self.standing is None:
            return self.evidence[0]
        name = "the process" if self.rank is None else f"rank {self.rank}"
        if self.standing.node is not None:
            name = f"{name} on node {self.standing.node}"
        if self.standing.role == "worker":
            frames = self.standing.frames
            worker = "DataLoader worker" if not frames or places.is_loader_worker(frames) else "worker"
            name = f"a {worker} of {name} (process {self.standing.look.pid})"
        does = "runs" if self.standing.runs else "stands"
        place = f"{does} in {self.place.name}" if self.place else ""
        return f"{name} {' and '.join(filter(None, (self.fault, place)))}"

    def _others(self) -> str:
        counted = Counter(self.waiting).most_common()
        return ", ".join(f"{ranks_text(count)} in {what}" for what, count in counted)


def ranks_text(count: int) -> str:
    return "1 rank waits" if count == 1 else f"{count} ranks wait"


def judge(found: Standings) -> HangVerdict | None:
    """Returns None if a rank moves, or the worker for which it waits; also after a single look."""
    trainers = [each for each in found if each.role == "trainer"]
    if all(each.look.facts.state in STOPPED for each in trainers):  # by a person; or there is none
        return None
    if any(each.moved is not False or _holder(each, found).moved is not False for each in trainers):
        return None
    for rule in (_silent, _by_flight_recorder, _elsewhere, _together):
        if verdict := rule(trainers, found):
            return verdict
    if len(trainers) == 1 or any(each.runs for each in trainers):
        return None
    groups = Counter(each.place.name for each in trainers if each.place)
    stand = ", ".join(f"{count} in {place}" for place, count in groups.most_common())
    return HangVerdict("scattered", None, None, None, (), (f"the ranks stand apart: {stand}",))


def _holder(trainer: Standing, found: Standings) -> Standing:
    """The worker for which a trainer waits, if one is busy or stuck; else the trainer itself."""
    if not places.waits_for_worker(trainer.frames):
        return trainer
    parent = (trainer.node, trainer.look.pid)
    workers = [
        each for each in found if each.role == "worker" and (each.node, each.look.facts.parent) == parent
    ]
    busy = [each for each in workers if each.fault or not places.is_idle_worker(each.frames)]
    moving = [each for each in busy if each.moved]
    return next(iter([*moving, *busy]), trainer)


def _silent(trainers: Standings, found: Standings) -> HangVerdict | None:
    for trainer in trainers:
        holder = _holder(trainer, found)
        others = [each for each in trainers if each is not trainer]
        if holder.fault and (not others or any(each.collective for each in others) or holder is not trainer):
            return _verdict("silent", holder, trainer, others, (f"process {holder.look.pid} {holder.fault}",))
    return None


def _by_flight_recorder(trainers: Standings, found: Standings) -> HangVerdict | None:
    """Where ranks are in several groups, one that is behind in a group may itself wait for a rank of another."""
    behind: list[tuple[Standing, tuple[str, ...]]] = []
    ahead: list[Standing] = []
    mismatched: HangVerdict | None = None
    for group in sorted({name for each in trainers for name in each.collectives}):
        members = [(each, each.collectives[group]) for each in trainers if group in each.collectives]
        if len(members) < 2:
            continue
        evidence = tuple(
            f"rank {each.rank} has entered {last} of group {group} last" for each, last in members
        )
        fewest, most = (extreme(last.number for _, last in members) for extreme in (min, max))
        if fewest < most:
            behind += [(each, evidence) for each, last in members if last.number == fewest]
            ahead += [each for each, last in members if last.number > fewest]
        else:
            mismatched = mismatched or _mismatched(members, evidence)
    if not behind:
        return mismatched
    first = min(behind, key=lambda each: (each[0].collective is not None, each[0] in ahead))
    culprit, evidence = first
    also = [each for each, _ in behind if not each.collective]
    others = [each for each in trainers if each is not culprit and each not in also]
    return _verdict("behind", _holder(culprit, found), culprit, others, evidence)


def _mismatched(
    members: Sequence[tuple[Standing, Collective]], evidence: tuple[str, ...]
) -> HangVerdict | None:
    """The ranks of the rarest collective; of two ranks neither can be blamed."""
    entered = Counter(_call(last) for _, last in members)
    if len(entered) < 2:
        return None
    lines = tuple(f"rank {each.rank} stands in {each.place.name}" for each, _ in members if each.place)
    (_, most), *_, (rarest, fewest) = entered.most_common()
    if most == fewest:
        names = " and ".join(f"rank {each.rank} in {last}" for each, last in members)
        return HangVerdict(
            "mismatched", None, None, None, (), (f"ranks wait apart: {names}", *evidence, *lines)
        )
    culprit = next(each for each, last in members if _call(last) == rarest)
    others = [each for each, last in members if _call(last) != rarest]
    return _verdict("mismatched", culprit, culprit, others, (*evidence, *lines))


def _call(last: Collective) -> tuple[str, str]:
    return last.name, last.sizes if last.name in SAME_SIZES else ""


def _elsewhere(trainers: Standings, found: Standings) -> HangVerdict | None:
    waiting = [each for each in trainers if each.collective]
    apart = [each for each in trainers if not each.collective]
    if not waiting or not apart:
        return None
    evidence = (
        *(f"rank {each.rank} is in no collective" for each in apart),
        *(f"rank {each.rank} waits in {each.collective}" for each in waiting),
    )
    return _verdict("elsewhere", _holder(apart[0], found), apart[0], waiting, evidence)


def _together(trainers: Standings, found: Standings) -> HangVerdict | None:
    if len({each.place for each in trainers}) > 1 or trainers[0].place is None:
        return None
    if len(trainers) == 1:
        holder = _holder(trainers[0], found)
        if holder.runs or places.waits_for_person(holder.frames):
            return None  # it may be at work: no other rank says that it should have ended
        return _verdict("together", holder, trainers[0], (), (f"process {holder.look.pid} does not move",))
    place = trainers[0].place.name
    return HangVerdict("together", None, None, None, (), (f"all {len(trainers)} ranks stand in {place}",))


def _verdict(
    kind: Kind, holder: Standing, trainer: Standing, others: Standings, evidence: tuple[str, ...]
) -> HangVerdict:
    return HangVerdict(kind, holder, trainer.rank, holder.fault, tuple(_waits(others)), evidence)


def _waits(others: Standings) -> Iterator[str]:
    for each in others:
        if each.collective or each.place:
            yield each.collective or (each.place.name if each.place else "")
