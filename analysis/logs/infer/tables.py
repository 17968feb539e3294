"""Rows of bare numbers -> columns, by the heading above them: CSV, `|` between cells, or blanks.

A heading may have two lines of cells, as MATLAB prints one: `Mini-batch` above `Loss`, or a set above its measures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from gputel.analysis.logs.infer.dialects import MEASURE
from gputel.analysis.logs.infer.named import PLACES, Named
from gputel.analysis.logs.infer.naming import name_as
from gputel.analysis.logs.infer.shapes import PLAIN_ROW, LineShape, cut, without_unit
from gputel.analysis.logs.names import HELD_OUT, TRAINING, Vocabulary
from gputel.analysis.logs.patterns import lazy_regex

# The columns of a detector's results.txt: the epoch and its total, memory, losses, precision, and evaluations
HEADLESS = (
    "epoch", None, "gpu_mem", "box", "obj", "cls", "total", "labels", "img_size", "precision", "recall", "mAP_50",
    "mAP_50_95", "val_box_loss", "val_obj_loss", "val_cls_loss",
)  # fmt: skip
ABOVE = 6  # lines between a heading and its first row: rules, a warning
_HIGH_ABOVE = 12  # of a heading without any figure, above a summary of the data
FURTHEST = 400
_NEAR = 50  # lines between a row with empty cells and a whole one
# a cell in which nothing was measured
_EMPTY = rb"(?:(?<=[\s|,;])|^)(?:-{1,3}|N/?A|n/?a|None|No log|#na#)(?=[\s|,;]|$)"
_MARK = lazy_regex(_EMPTY)
_BETWEEN = lazy_regex(rb"(?:[\s|,;\[\]]|%b)*" % _EMPTY)
# `| train | 1.15 | 0.39 |`
_LABEL = lazy_regex(rf"(?i)[\s|]*(?P<set>{TRAINING}|{HELD_OUT})[\s|]+".encode())
_WIDE_CELLS = lazy_regex(r"\t|\s{2,}")
_TITLE = lazy_regex(rb"[\s|]*(?P<name>[A-Za-z][\w/ -]*?)(?:\s*\|\s*|\s{2,})")
_CELL_ENDS = lazy_regex(r"\s*\|\s*|\s{2,}")
_SET = lazy_regex(rf"(?:{TRAINING}|{HELD_OUT})(?: set)?")
_VALIDATED = lazy_regex(r"(?i)(?:val|valid|validation|eval)[ _]loss")
_NAMES_SET = lazy_regex(r"(?i)train|val|test|eval|dev")
_LETTER = lazy_regex(rb"[A-Za-z]")
_TOKEN = lazy_regex(rb"[^\s|]+")
_VALUED = lazy_regex(rb"[-+(]?[\d.]|[-+]?(?:nan|inf)")
_WORDS = lazy_regex(rb"[^\s|]+(?: [^\s|]+)*")
# bars and blank lines may stand between a heading and its rows
_STAMPED = lazy_regex(r"(?i)^(?:time ?stamp|date ?time|date|time)\s*[|,;\t]\s*")  # is cut off each row
_REDRAWN = lazy_regex(rb"\d%|\xe2\x96[\x80-\x9f]|^\s*$")


def column_name(shape: LineShape, lines: Sequence[bytes], words: Vocabulary) -> list[Named] | None:
    """Names by a heading; None where words stand between the numbers, or no line above has as many cells."""
    literals = [without_unit(literal) for literal in shape.literals]
    if shape.slots == len(HEADLESS) and _is_headless(literals):
        return name_as(shape, HEADLESS, words)
    listed = _by_lists(shape, lines)
    if listed:
        return name_as(shape, listed, words)
    of_sets = _by_sets(shape, lines)
    if of_sets:
        return name_as(shape, of_sets, words)
    label = _LABEL.fullmatch(shape.words[0])
    if label:
        literals[0] = b""
    asides = [at for at in range(shape.slots) if _is_aside(literals, at)]
    if shape.slots - len(asides) < 2 or not all(
        _BETWEEN.fullmatch(text) for text in _joined(literals, asides)
    ):
        return None
    places = _places(literals, asides)
    labeled = int(label is not None)
    below = b""
    above = _above(lines, shape.lines[0])
    for line in above:
        titles = _continued(_cells(line, places[-1] + 1 + labeled), below)
        below = line
        otherwise = ""
        if not titles and not label:
            titles, otherwise = (None, "") if asides else _below(line, lines, shape)
            titles = titles or _beside(line, lines, shape) or _of_frame(line, lines, shape)
        if titles:
            if _is_headed_otherwise(shape, lines, line):
                return None
            upper = next((text for text in above if _LETTER.search(text)), b"")
            titles = _numbered(_of_validation(_spanned(_stacked(titles, line, upper), upper)))
            keys = [None if at in asides else titles[places[at] + labeled] for at in range(shape.slots)]
            held_out = label is not None and not label["set"].lower().startswith(b"train")
            named = name_as(shape, [f"val {key}" if held_out and key else key for key in keys], words)
            return [replace(named[0], never=otherwise), *named[1:]]
    return None


def _by_sets(shape: LineShape, lines: Sequence[bytes]) -> list[str] | None:
    """Names for `loss | 2.876 | 2.958` below a heading of sets, `Training | Validation`; blanks may part them."""
    title = _TITLE.fullmatch(shape.words[0])
    if title is None or shape.slots < 2 or any(text.strip() not in (b"|", b"") for text in shape.words[1:]):
        return None
    for line in _above(lines, shape.lines[0]):
        sets = _CELL_ENDS.split(line.decode(errors="replace").strip(" |").lower())
        sets = sets[-shape.slots :] if len(sets) == shape.slots + 1 else sets  # `| metric | train | val |`
        if len(sets) == shape.slots and all(_SET.fullmatch(cell) for cell in sets):
            measure = title["name"].decode()
            loses = "loss" in measure.lower()
            return [measure if loses and cell.startswith("train") else f"{cell} {measure}" for cell in sets]
    return None


def _by_lists(shape: LineShape, lines: Sequence[bytes]) -> list[str] | None:
    """Names for `1000  [2.5e-2, 1.7e-3]  [3.1e-2, 1.8e-3]  []`, of which each list is one cell.

    Several figures of a list are parts of what the heading names, `Train loss 1` and `Train loss 2`.
    """
    cells = _listed(shape)
    if cells is None:
        return None
    sizes = [cells.count(cell) for cell in range(max(cells) + 1)]
    for line in _above(lines, shape.lines[0]):
        titles = _WIDE_CELLS.split(line.decode(errors="replace").strip())
        is_heading = len(titles) > 1 and all(title[:1].isalpha() for title in titles)
        if not is_heading or len(sizes) > len(titles):
            continue
        keys = []
        for at, cell in enumerate(cells):
            part = at - cells.index(cell) + 1
            keys.append(f"{titles[cell]} {part}" if sizes[cell] > 1 else titles[cell])
        return keys
    return None


def _listed(shape: LineShape) -> list[int] | None:
    """The cell of each value, where lists in brackets stand apart in a row; None where it has none."""
    cells, cell, opened, lists = [], -1, False, 0
    for at in range(shape.slots):
        before, behind = shape.words[at], shape.words[at + 1]
        begins = before.rstrip().endswith(b"[")
        if not (begins or opened or (at == 0 and not before.strip())):
            return None
        if opened and not begins and before.strip() != b",":
            return None
        cell += begins or at == 0
        lists += begins
        opened = not behind.lstrip().startswith(b"]") if begins or opened else False
        if not (opened or behind.strip(b" \t[]") == b""):
            return None
        cells.append(cell)
    return cells if lists > 1 and not opened else None


def _is_headless(literals: Sequence[bytes]) -> bool:
    """Whether a row begins like `0/99 0.56G`, as those of a detector's results do, which have no heading."""
    return literals[1].strip() == b"/" and all(not text.strip() for text in (literals[0], *literals[2:]))


def _above(lines: Sequence[bytes], first: int) -> Iterator[bytes]:
    """The lines that may be a heading, nearest first, without rows of a table."""
    near = 0
    for line in reversed(lines[max(0, first - FURTHEST) : first]):
        if not _is_row(line) and not _REDRAWN.search(line):
            near += 1
            if near <= ABOVE or not cut(line)[1]:
                yield line
        if near == _HIGH_ABOVE:
            return


@lru_cache(maxsize=FURTHEST)
def _is_row(line: bytes) -> bool:
    if PLAIN_ROW.fullmatch(line) and b"," in line.strip(b","):
        return True
    literals, values = cut(line)
    return len(values) > 1 and all(_BETWEEN.fullmatch(without_unit(literal)) for literal in literals)


def _is_aside(literals: Sequence[bytes], at: int) -> bool:
    """Whether a value belongs to the cell before it: `140 (0.47%)` and `12/165` are one cell each."""
    if at > 0 and literals[at].strip() == b"/":
        return True
    return literals[at].rstrip().endswith(b"(") and literals[at + 1].lstrip(b"% ").startswith(b")")


def _joined(literals: Sequence[bytes], asides: Sequence[int]) -> list[bytes]:
    """The literals between cells, without the brackets of asides."""
    bracketed = [at for at in asides if literals[at].strip() != b"/"]
    opened = [text.rstrip()[:-1] if at in asides else text for at, text in enumerate(literals)]
    return [text.lstrip(b"% ")[1:] if at - 1 in bracketed else text for at, text in enumerate(opened)]


def _places(literals: Sequence[bytes], asides: Sequence[int]) -> list[int]:
    """The column of each value, and then the last column: cells may be empty."""
    slots = len(literals) - 1
    inner = [text for at, text in enumerate(literals[1:-1], start=1) if at not in asides]
    divides = b"|" if all(b"|" in text for text in inner) else b","
    if not any(divides in text for text in literals):
        empty = [len(_MARK.findall(text)) for text in literals]
        cells = [at - sum(aside <= at for aside in asides) + sum(empty[: at + 1]) for at in range(slots)]
        return [*cells, cells[-1] + empty[-1]]
    signs = [text.count(divides) for text in literals]
    if divides == b"|":  # the row may stand between bars, too
        signs[0] -= literals[0].lstrip().startswith(b"|")
        signs[-1] -= literals[-1].rstrip().endswith(b"|")
    return [sum(signs[: at + 1]) for at in range(slots + 1)]


def _cells(line: bytes, width: int) -> list[str] | None:
    text = line.decode(errors="replace").strip().strip("|").strip()
    if text.startswith("# "):  # a comment, as numpy writes one over its columns; or the name of the first
        return _split(text[1:].strip(), width) or _split(text, width)
    return _split(text, width) or _split(_STAMPED.sub("", text), width)


def _is_headed_otherwise(shape: LineShape, lines: Sequence[bytes], heading: bytes) -> bool:
    """Whether rows further down stand right below another heading, with as many words."""
    words = heading.split()
    for before, number in zip(shape.lines, shape.lines[1:], strict=False):
        if number == before + 1:
            continue
        above = lines[number - 1]
        is_heading = any(_LETTER.search(word) for word in above.split()) and not cut(above)[1]
        if is_heading and len(above.split()) == len(words) and above.split() != words:
            return True
    return False


def _continued(titles: list[str] | None, below: bytes) -> list[str] | None:
    """The titles with the words right below them, where a second line of the heading has as many cells."""
    second = [cell.strip() for cell in below.decode(errors="replace").strip().strip("|").split("|")]
    words = [re.sub(r"\(.*\)", "", cell) for cell in second]
    is_heading = all(cell == "" or any(c.isalpha() for c in cell) for cell in second) and any(words)
    if titles is None or len(titles) != len(second) or not is_heading:
        return titles
    return [f"{title} {word}".strip() for title, word in zip(titles, words, strict=True)]


def _stacked(titles: list[str], heading: bytes, above: bytes) -> list[str]:
    """The titles with the words right above them, where each word of that line begins or ends with one of them.

    `average since` stands above `loss last` in the tables of an online learner.
    """
    upper, lower = list(_TOKEN.finditer(above)), list(_TOKEN.finditer(heading))
    if (
        len(upper) != len(titles)
        or len(lower) != len(titles)
        or not all(_LETTER.match(u.group()) for u in upper)
    ):
        return titles
    if not all(u.start() == w.start() or u.end() == w.end() for u, w in zip(upper, lower, strict=True)):
        return titles
    return [f"{u.group().decode(errors='replace')} {title}" for u, title in zip(upper, titles, strict=True)]


def _spanned(titles: list[str], above: bytes) -> list[str]:
    """The titles with the sets above groups of them, where each group begins with a title that comes again.

    `train | valid` stands above `epoch | loss acc | loss acc`, or the measures above the sets.
    """
    text = above.decode(errors="replace").strip(" |\t")
    whole = _split(text, len(titles))
    over = whole or [cell for cell in _CELL_ENDS.split(text) if cell]
    heads = over if whole else [cell for cell in over if cell.lower() not in PLACES]
    groups = range(len(titles)) if whole else _groups(titles)
    if len(heads) < 2 or max(groups) + 1 != len(heads):
        return titles
    named = []
    for title, group in zip(titles, groups, strict=True):
        pair = title.lower(), heads[group].lower()
        is_below = _SET.fullmatch(pair[1]) and MEASURE.search(title)
        is_above = _SET.fullmatch(pair[0]) and MEASURE.search(heads[group])
        named.append(
            f"{heads[group]} {title}" if is_below else f"{title} {heads[group]}" if is_above else title
        )
    return named


def _numbered(titles: list[str]) -> list[str]:
    """The titles, of which a measure that comes again has a number: the heading does not say how the two differ."""
    again = [titles[:at].count(title) for at, title in enumerate(titles)]
    return [
        f"{title} {before + 1}" if before and MEASURE.search(title) else title
        for title, before in zip(titles, again, strict=True)
    ]


def _groups(titles: list[str]) -> list[int]:
    """The number of the group that each title is in: one begins where a title of the group before comes again."""
    seen, group, groups = set[str](), 0, list[int]()
    for title in titles:
        if title in seen:
            seen, group = set(), group + 1
        seen.add(title)
        groups.append(group)
    return groups


def _of_validation(titles: list[str]) -> list[str]:
    """The titles, of which measures behind a validation loss are its own: `Validation Loss`, then `Accuracy`.

    Not where one of them names a set itself, `train_acc`.
    """
    at = next((at for at, title in enumerate(titles) if _VALIDATED.fullmatch(title)), len(titles))
    measures = {title for title in titles[at + 1 :] if MEASURE.search(title)}
    if any(_NAMES_SET.search(title) for title in measures):
        return titles
    return [f"val {title}" if title in measures else title for title in titles]


def _below(heading: bytes, lines: Sequence[bytes], shape: LineShape) -> tuple[list[str] | None, str]:
    """The titles above the values of rows with empty cells, and the first value of a row with other titles.

    `0  00:00:08  0.01  2.4` may be the validation in front of a training, whose rows have as many values.
    """
    titles = _under(heading, lines[shape.lines[-1]])
    if titles is None or len(titles) != shape.slots:
        return None, ""
    rows = zip(shape.rows, shape.lines, strict=True)
    others = {row[0] for row, number in rows if _under(heading, lines[number]) != titles}
    if len(others) > 1 or any(shape.column(0).count(first) > 1 for first in others):
        return None, ""
    return titles, next((first.decode() for first in others), "")


def _under(heading: bytes, row: bytes) -> list[str] | None:
    """The titles above the values of a row that has fewer values than the heading has columns.

    The first value stands below the first title: the blanks in front of both are cut off.
    """
    over, values = list(_WORDS.finditer(heading)), list(_TOKEN.finditer(row))
    for edge in (re.Match.start, re.Match.end):
        shift = edge(over[0]) - edge(values[0]) if over and values else 0
        titles = {edge(title) - shift: title.group().decode(errors="replace") for title in over}
        keys = [titles.get(edge(value)) for value in values]
        if len(keys) < len(over) and all(key is not None and any(c.isalpha() for c in key) for key in keys):
            return [key for key in keys if key]
    return None


def _beside(heading: bytes, lines: Sequence[bytes], shape: LineShape) -> list[str] | None:
    """The titles of rows with empty cells: their values end where those of a whole row near them do."""
    row, width = _values(lines[shape.lines[0]]), len(heading.split())
    near = lines[max(0, shape.lines[0] - _NEAR) : shape.lines[0] + _NEAR]
    whole = next((cells for line in near if len(cells := _values(line)) == width), [])
    titles = _split(heading.decode(errors="replace").strip(), width) if 2 < len(row) < len(whole) else None
    if titles is None:
        return None
    shift = whole[0].end() - row[0].end()
    ends = {cell.end() - shift: title for cell, title in zip(whole, titles, strict=True)}
    keys = [ends.get(value.end(), "") for value in row]
    return keys if all(keys) else None


def _of_frame(heading: bytes, lines: Sequence[bytes], shape: LineShape) -> list[str] | None:
    """The titles of a frame of pandas: each ends where its values do, and the index has none.

    The index is the step where no title is a place. The blanks in front of the heading are cut off.
    """
    over, row = list(_WORDS.finditer(heading)), _values(lines[shape.lines[0]])
    index = {value.isdigit() for value in shape.column(0)}
    if len(over) < 2 or len(row) != len(over) + 1 or index != {True}:
        return None
    shifts = {title.end() - value.end() for title, value in zip(over, row[1:], strict=True)}
    titles = [title.group().decode(errors="replace") for title in over]
    if len(shifts) > 1 or not all(title[:1].isalpha() for title in titles):
        return None
    last = [re.split(r"[_ /.]", title.lower())[-1] for title in titles]  # `training_iteration`
    return ["#" if PLACES.keys().isdisjoint(last) else "", *titles]


def _values(row: bytes) -> list[re.Match[bytes]]:
    """The cells of a row that holds nothing but values."""
    cells = list(_TOKEN.finditer(row))
    return cells if all(_VALUED.match(cell.group()) for cell in cells) else []


def _split(text: str, width: int) -> list[str] | None:
    for between in (",", ";", r"\|", "\t", r"\s{2,}", r"\s+", r"\s*\|\s*|\s+"):
        titles = [title.strip(" \"'") for title in re.split(between, text)]
        # the index of a table, without a name
        titles[:1] = titles[:1] if titles[0] or between != "," else ["#"]
        if len(titles) == width and all(title == "#" or _is_title(title) for title in titles):
            return titles
    return None


def _is_title(text: str) -> bool:
    """Whether it has a letter, and is no piece of a call such as `predict(model, test)`."""
    return any(c.isalpha() for c in text) and text.count("(") == text.count(")")
