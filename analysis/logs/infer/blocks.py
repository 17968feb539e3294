"""Records of several lines: a header that says the step, and indented or bulleted lines below it.

The lines below a header are its body. A shape whose lines all stand in bodies is a part of the record, however
many of its lines one body has; a shape that also stands elsewhere (under the heading of an evaluation) is nline.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise, zip_longest

from gputel.analysis.logs.infer.candidates import OFTEN, Candidate, is_best
from gputel.analysis.logs.infer.counters import integers
from gputel.analysis.logs.infer.named import places_alone
from gputel.analysis.logs.infer.shapes import KEPT_ROWS
from gputel.analysis.logs.names import legal
from gputel.analysis.logs.patterns import lazy_regex

# indented, or behind a bullet; \xe2 begins drawn ones
_INSIDE = lazy_regex(rb"\s+\S|\s*(?:[|>*+\xe2]|-+[ >])")
_PAIR = lazy_regex(rb"[\s{]*['\"]?[A-Za-z][\w./ -]*['\"]?:\s+[^\s,{}\[\]]+,?\s*\}?\s*")
_HELD_OUT = lazy_regex(
    rb"(?i)\W*(?:eval\w*|vali?|valid\w*|test(?:ing)?|dev)(?![a-z])"
)  # beside `Train epoch 1`
_OF_STEP = lazy_regex(r"(?i)\b(?:step|iteration|iter|batch)\b")
_LONGEST = 200  # lines of a body
_MOSTLY = 0.8
_SHOWS = 4  # headers
_MOST_IN_HEADER = 4  # values without a name: `[14/300][250/1251]`


def header_above(
    candidates: Sequence[Candidate], main: Candidate, lines: Sequence[bytes]
) -> Candidate | None:
    """The header of the blocks that the lines of `main` stand in; `lines` keep their indentation."""
    headers = [
        line
        for line in candidates
        if line.place
        and line.place.column != "epoch"
        and not line.shape.is_bar
        and not line.shape.is_boxed
        and not line.metrics
    ]
    below = [line for line in headers if line.shape.count > 1 and len(members([main], line, lines)) == 1]
    return max(below, key=lambda line: (-line.place_rank, line.shape.count), default=None)


def header(candidates: Sequence[Candidate], main: Candidate) -> Candidate | None:
    """A line that only says the step, above the lines of its record."""
    if main.place:
        return None
    above = [
        line
        for line in candidates
        if line.role in ("place", "other", "train")
        and _says_step(line)
        and not (line.shape.is_bar or line.saves)
    ]
    last = main.shape.lines[-1]
    near = [
        line for line in above if line.shape.first < last and _is_near(line, main) and _alternate(line, main)
    ]
    if main.role == "eval":  # a line below it announces the next one
        near = [line for line in near if line.shape.first < main.shape.first]
    if any(line.role == "epoch" and _is_near(line, main) for line in candidates):
        near = [line for line in near if not _is_beside_epochs(line, main)]
    return max(near, key=lambda line: (-line.place_rank, line.shape.count), default=None)


def _is_beside_epochs(line: Candidate, main: Candidate) -> bool:
    """Whether it is no header where other lines head epochs: it stands below, or is of other data or the best."""
    is_below = not line.is_fine and line.shape.first > main.shape.first
    return is_below or _HELD_OUT.match(line.shape.english[0]) is not None or _is_best(line)


def footer(candidates: Sequence[Candidate], main: Candidate) -> Candidate | None:
    """A line that says, below the lines of a record, of which step they were: `[finished step 10]`.

    A log whose beginning is cut off also begins with figures. Its first step is none that a run begins with. Below
    an evaluation such a line begins the next one: `Validating at the end of epoch 3`.
    """
    if main.place or main.role == "eval":
        return None
    places = [
        line
        for line in candidates
        if _says_step(line)
        and not _is_best(line)
        and not (line.evidence or line.is_measured or line.shape.is_bar or line.shape.is_boxed)
    ]
    if any(line.shape.first < main.shape.first and _is_near(line, main) for line in places):
        return None
    closing = [line for line in places if _closes(line, main)]
    if not any(line.is_over or _begins_run(line) for line in closing):
        return None
    return min(closing, key=lambda line: (not line.is_over, line.place_rank))  # `epoch: 3`, `iteration: 924`


def _closes(footer: Candidate, main: Candidate) -> bool:
    """Whether lines of the records stand above it each time, and none is left below the last one."""
    above = [bisect(main.shape.lines, number) for number in footer.shape.lines]
    rises = all(after > before for before, after in pairwise([0, *above[:KEPT_ROWS]]))
    is_last = main.shape.lines[-1] < footer.shape.lines[-1]
    return rises and is_last and OFTEN <= footer.shape.count >= 0.95 * main.shape.count


def _begins_run(footer: Candidate) -> bool:
    """Whether its steps begin with 0, 1, or the distance between them."""
    steps = (integers(footer.shape.column(footer.place.at)) if footer.place else None) or [-1]
    return steps[0] in (0, 1) or steps[0] == (steps[1] - steps[0] if len(steps) > 1 else -1)


def ended_epochs(candidates: Sequence[Candidate], main: Candidate) -> dict[Candidate, int]:
    """The lines that stand below the records of the epoch that they name, and its number on the first of them."""
    firsts = {line: _first_of_ended(line, main) for line in candidates if line is not main}
    is_headed = any(line.role == "epoch" and first is None for line, first in firsts.items())
    return {} if is_headed else {line: first for line, first in firsts.items() if first is not None}


def _first_of_ended(line: Candidate, main: Candidate) -> int | None:
    """The first epoch, where each pass of the records' count stands above a line that names its epoch.

    The lines must begin with the first epoch, or the last one must end the log: else they may head the passes below
    them, and the first of them be lost.
    """
    if line.place is None or main.place is None or "epoch" in main.columns or not main.falls:
        return None
    counts = (integers(main.shape.column(main.place.at)) or [])[:KEPT_ROWS]
    begins = [row for row, count in enumerate(counts) if row == 0 or count < counts[row - 1]]
    last = main.shape.lines[len(counts) - 1]
    numbers = [number for number in line.shape.lines if number < last or len(counts) == len(main.shape.rows)]
    epochs = (integers(line.shape.column(line.place.at)) or [])[: len(numbers)]
    passes = [main.shape.lines[row] for row in begins]
    in_turn = sorted([*passes, *numbers]) == [
        n for n in chain(*zip_longest(passes, numbers)) if n is not None
    ]
    rises = len(epochs) > 1 and epochs == [*range(epochs[0], epochs[0] + len(epochs))]
    whole = epochs[:1] in ([0], [1]) and len({counts[row] for row in begins}) == 1
    ends = line.place.column == "epoch" and in_turn and rises and (whole or len(numbers) == len(passes))
    return epochs[0] if ends else None


def passes(bar: Candidate) -> int:
    """How often a bar begins, where its count falls or stays."""
    at = next((cell.at for cell in bar.named if cell.column == "count"), None)
    counts = [] if at is None else integers(bar.shape.column(at)) or []
    return bool(counts) + sum(later <= earlier for earlier, later in pairwise(counts))


def first_below_passes(main: Candidate, passes: int) -> int | None:
    """The first epoch, where a line gives the results of each pass of a bar that names no epoch."""
    if main.place is None or main.place.column != "epoch":
        return None
    epochs = integers(main.shape.column(main.place.at)) or [-1]
    rises = epochs == [*range(epochs[0], epochs[0] + len(epochs))] and epochs[0] in (0, 1)
    return epochs[0] if rises and len(epochs) > 1 and passes - len(epochs) in (0, 1) else None


def epochs_over(candidates: Sequence[Candidate], passes: int) -> Iterator[Candidate]:
    """The line that says no more than that an epoch is over: `Epoch 3 took 12.3s`, below each pass of a bar."""
    for line in candidates:
        is_over = line.times_epochs and line.is_over
        first = first_below_passes(line, passes) if is_over else None
        if first is not None:
            yield replace(line, role="epoch", evidence=False, named=places_alone(line.named), ends=first)


def first_of(
    candidates: Sequence[Candidate], footer: Candidate, main: Candidate, lines: Sequence[bytes]
) -> Candidate:
    """The shape that begins a record that ends with the footer: the loss, or a figure that stands above it.

    In a printed dict that is its first pair, whatever it gives.
    """
    others = [
        line
        for line in candidates
        if line.place is None and line.role in ("train", "other") and line.metrics and _closes(footer, line)
    ]
    near = [line for line in others if abs(line.shape.count - main.shape.count) <= 1 and line.speaks]
    near += [line for line in others if _stands_above(line, footer, lines)]
    return min([main, *near], key=lambda line: line.shape.first)


def with_one_time(chosen: Sequence[Candidate]) -> list[Candidate]:
    """Leaves their own names to the times of the parts of a record that also gives its `Iteration time`."""
    timed = {cell for line in chosen if line.role == "part" for cell in line.named if cell.column == "dt_ms"}
    whole = {cell for cell in timed if _OF_STEP.search(cell.source)}
    own = timed - whole if whole else set()
    return [
        replace(line, named=tuple(replace(c, column=legal(c.source)) if c in own else c for c in line.named))
        for line in chosen
    ]


def opening(
    candidates: Sequence[Candidate], header: Candidate | None, lines: Sequence[bytes]
) -> Candidate | None:
    """The first line of a record of several lines: the one with the step, or one that stands above it.

    Above it may stand other rows of its box, or other pairs of a document: JSON with a pair on each line, YAML.
    """
    if header is None:
        return None
    is_above = _is_in_box if header.shape.words[0].lstrip()[:1] == b"|" else _stands_above
    above = [line for line in candidates if line.place is None and is_above(line, header, lines)]
    return min([header, *above], key=lambda line: line.shape.first)


def members(candidates: Sequence[Candidate], header: Candidate, lines: Sequence[bytes]) -> list[Candidate]:
    """The shapes whose lines stand in the bodies of the header."""
    bodies: set[int] = set()
    for number in header.shape.lines:
        bodies.update(_body(lines, number))
    last = header.shape.lines[-1] + _LONGEST
    inside = [
        (line, [number for number in line.shape.lines if number <= last])
        for line in candidates
        if line is not header and not line.place
    ]
    return [
        line
        for line, numbers in inside
        if numbers and len(bodies.intersection(numbers)) >= _MOSTLY * len(numbers)
    ]


def _body(lines: Sequence[bytes], number: int) -> range:
    """The numbers of the lines below a header that are indented further or bulleted."""
    end, margin = number + 1, _margin(lines[number])
    while end < min(len(lines), number + _LONGEST) and _is_inside(lines[end], margin):
        end += 1
    return range(number + 1, end if end > number + 2 else number + 1)


def _is_inside(line: bytes, margin: int) -> bool:
    return _INSIDE.match(line) is not None and (margin == 0 or _margin(line) > margin)


def _margin(line: bytes) -> int:
    """Where the words begin: the keys of a printed dict stand one further to the right than its brace."""
    return len(line) - len(line.lstrip(b" \t{"))


def _stands_above(line: Candidate, header: Candidate, lines: Sequence[bytes]) -> bool:
    """Whether it is a pair of a document, as the header is, and stands above the header in each record."""
    first, count = line.shape.first, line.shape.count - header.shape.count
    pairs = [lines[first], lines[header.shape.first]]
    margin = _margin(pairs[1])
    if first > header.shape.first or _margin(pairs[0]) != margin or not all(map(_PAIR.fullmatch, pairs)):
        return False
    ends = [*line.shape.lines[1:], len(lines)]
    rows = list(zip(line.shape.lines, header.shape.lines, ends, strict=False))
    return (
        count in (0, 1)
        and all(  # 1: the log ends within a record
            a < b < c and not _parted(lines[a:b], margin) and (c == len(lines) or _parted(lines[b:c], margin))
            for a, b, c in rows
        )
    )


def _parted(between: Sequence[bytes], margin: int) -> bool:
    """Whether a document ends: by a brace or a blank line, further left, or by no pair if nothing is indented."""
    return any(
        not line.strip()
        or line.rstrip().endswith(b"}")
        or _margin(line) < margin
        or (margin == 0 and not _PAIR.fullmatch(line))
        for line in between
    )


def _is_near(header: Candidate, main: Candidate) -> bool:
    """Whether it is about as frequent as the lines of the records; more so if it has figures of its own."""
    most = 1.25 if header.metrics else 2.0
    return 1 / most <= header.shape.count / main.shape.count <= most


def _alternate(header: Candidate, main: Candidate) -> bool:
    """Whether lines of the records stand below most headers: the layers of a printed model count, too."""
    if header.shape.count < _SHOWS:
        return True
    below = [bisect(main.shape.lines, number) for number in header.shape.lines]
    return 2 * len(set(below)) > len(below)


def _is_best(line: Candidate) -> bool:
    """Whether its place is that of the best so far: `Current best epoch: 3`."""
    return line.place is not None and is_best(line.place.source)


def _says_step(line: Candidate) -> bool:
    """Whether it counts, and names its place or has no name for it: `submissions = 3` counts something else."""
    if line.place is None or (line.place.guessed and line.place.slot.key and "epoch" not in line.columns):
        return False
    is_row = line.shape.slots > 1 and not b"".join(line.shape.words).strip(b" []")
    if line.place.slot.key is None and (is_row or line.shape.slots > _MOST_IN_HEADER):
        return False  # `[49, 9, 38, 56, 1]` is a list, `[[347  19   8]` the row of a matrix
    # `batch = 405` is a setting
    return line.shape.count < 3 or len(set(line.shape.column(line.place.at))) > 1


def _is_in_box(line: Candidate, header: Candidate, _: Sequence[bytes]) -> bool:
    return 0.8 <= line.shape.count / header.shape.count <= 1.2
