"""The processes of a training as text: groups of equal stacks, each with its ranks and what they do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gputel.analysis.incidents import places
from gputel.analysis.incidents.process_states import Standing
from gputel.analysis.incidents.verdict import HangVerdict
from gputel.telemetry.characters import visible_line
from gputel.telemetry.inside.stacks import Frame
from gputel.telemetry.secrets import mask

ORDER = {"trainer": 0, "worker": 1, "launcher": 2}
IMPORTS = "<frozen importlib"


def overview(found: Sequence[Standing], verdict: HangVerdict | None) -> Iterator[str]:
    """Lines: the verdict and its evidence, then each group with the frames of its main thread."""
    if verdict:
        yield visible_line(mask(verdict.sentence))
        evidence = (line for line in verdict.evidence if line != verdict.sentence)
        yield from (f"  {visible_line(mask(line))}" for line in evidence)
        yield ""
    for members in groups(found):
        yield from group_lines(members)


def group_lines(members: Sequence[Standing]) -> list[str]:
    """The group's state, and its frames without those of the import system, of which an import has hundreds."""
    shown = (frame for frame in members[0].frames if not frame.file.startswith(IMPORTS))
    frames = [f"  {mask(frame_text(frame))}" for frame in shown]
    return [mask(group_title(members)), *(frames or ["  (no stack)"]), ""]


def stacks_text(found: Sequence[Standing]) -> str:
    """The threads that train in groups of equal stacks, innermost frame last, then all others of each process."""
    parts = [line for members in groups(found) for line in group_lines(members)]
    for each in found:
        for thread in each.look.threads:
            if thread.frames != each.frames:
                parts.append(f"process {each.look.pid}, thread {thread.name or '(no name)'}")
                parts += [*(f"  {frame_text(frame)}" for frame in thread.frames), ""]
    return "\n".join(parts)


def groups(found: Sequence[Standing]) -> list[list[Standing]]:
    """Processes of one role that stand alike, the smallest group first: it holds up the others."""
    by_stack: dict[object, list[Standing]] = {}
    for each in found:
        by_stack.setdefault((each.role, each.fault, tuple(each.frames)), []).append(each)
    return sorted(by_stack.values(), key=lambda members: (ORDER[members[0].role], len(members)))


def group_title(members: Sequence[Standing]) -> str:
    """`ranks 0, 2-7 (process 11, 13) wait in all_reduce, do not move`"""
    pids = ", ".join(str(each.look.pid) for each in members)
    ranks = sorted({each.rank for each in members if each.rank is not None})
    title, role = ranks_name(ranks) if ranks else "the run", members[0].role
    name = title if role == "trainer" else f"{role} of {title}"
    return visible_line(f"{name} (process {pids}) {_does(members[0], several=len(members) > 1)}")


def _does(each: Standing, *, several: bool) -> str:
    wait, stand, not_move = (
        ("wait", "stand", "do not move") if several else ("waits", "stands", "does not move")
    )
    moves = {True: ", on the move", False: f", {not_move}", None: ""}[each.moved]
    if each.fault:
        return each.fault
    if places.is_launcher(each.frames):
        return f"{wait} for the ranks{moves}"
    if each.collective:
        return f"{wait} in {each.collective}{moves}"
    if each.runs:
        stand = "run" if several else "runs"
    return f"{stand} in {each.place.name}{moves}" if each.place else ""


def ranks_name(ranks: Sequence[int]) -> str:
    """`rank 3`, `ranks 0, 2-7`"""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    names = (str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(names)}"


def frame_text(frame: Frame) -> str:
    """`/home/me/train.py:31 main`"""
    return visible_line(f"{frame.file}:{frame.line} {frame.function}")
