"""Formats are data: each reads its own samples, none reads another's, and nonsense is refused with the reason."""

from __future__ import annotations

import importlib
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gputel.analysis.logs import formats, numpy_engine, regex_engine
from gputel.analysis.logs.formats import Format, samples
from gputel.analysis.logs.lines import LIMIT
from gputel.analysis.logs.patterns import Engine, Field, Pattern, Reject
from gputel.telemetry.errors import GputelError

regexes: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
SHIPPED = formats.shipped()
LINE = "[[lines]]\nname = 'a'\nrole = 'train'\nneedle = 'x'\nline = 'x <loss>'\n"
DOCS = Path(__file__).resolve().parents[3] / "docs"
NAMES = {known.name: known for known in SHIPPED}


@pytest.mark.parametrize("known", SHIPPED, ids=NAMES)
def test_format_reads_its_own_samples(known: Format) -> None:
    assert known.samples
    assert samples.check(known) == []


@pytest.mark.parametrize("known", SHIPPED, ids=NAMES)
def test_format_reads_its_samples_among_all_others(known: Format) -> None:
    for sample in known.samples:
        assert list(samples.faults_of(sample, samples.read(sample["text"], SHIPPED))) == []


def test_formats_json_holds_what_the_toml_files_say() -> None:
    hint = "formats.json is out of date: run `python -m gputel.analysis.logs.formats`"
    assert formats.GENERATED.read_text() == formats.generate(), hint


@pytest.mark.parametrize("known", SHIPPED, ids=NAMES)
def test_key_of_a_pair_has_an_end(known: Format) -> None:
    """A line may hold anything any number of times, and a key is looked for at each of its letters."""
    for pattern in known.patterns:
        if pattern.pairs:
            assert longest_key(pattern.pairs.regex) <= 1000, pattern.name


def longest_key(pairs: re.Pattern[bytes]) -> int:
    key = pairs.groupindex["key"]
    found = [part for part in parts(regexes.parse(pairs.pattern, pairs.flags)) if part[0] == key]
    return max(int(inner.getwidth()[1]) for _, inner in found)


def parts(tree: Any) -> Iterator[tuple[int | None, Any]]:
    """The number of each group, and what stands in it."""
    for op, argument in tree:
        if str(op) == "SUBPATTERN":
            yield argument[0], argument[-1]
            yield from parts(argument[-1])


@pytest.mark.parametrize(
    "head", [b"", b"step 1 | loss: 2.5 ", b"iter 5: loss 2.5, ", b"step=1 loss=2.5 lr=1 "]
)
def test_line_of_anything_as_long_as_any_is_read_to_its_end(head: bytes) -> None:
    """Where the cost grew with the square of the length, this would take minutes, and with its cube for ever."""
    for piece in (
        b" ",
        b"x",
        b"x ",
        b"1 ",
        b"x: ",
        b"x=",
        b'"',
        b'{"',
        b"(",
        b"x(",
        b"| ",
        b"x - ",
        b"x: 1, ",
    ):
        line = head + piece * ((LIMIT - len(head)) // len(piece))
        found = regex_engine.match(line, formats.patterns(SHIPPED))
        assert isinstance(found, regex_engine.Match) == bool(head), (head, piece)


@pytest.mark.parametrize("known", [each for each in SHIPPED if not each.last], ids=lambda known: known.name)
def test_format_reads_no_record_of_another(known: Format) -> None:
    """General formats (JSON lines, logfmt, tqdm) are tried last, and may."""
    others = [other for other in SHIPPED if other is not known and not other.last]
    logs = [
        (other.name, samples.read(sample["text"], (known,))) for other in others for sample in other.samples
    ]
    assert [name for name, log in logs if log.records.height + log.evals.height] == []


@pytest.mark.parametrize("known", SHIPPED, ids=NAMES)
def test_format_says_where_its_grammar_was_read(known: Format) -> None:
    assert known.grammar
    assert known.title != known.name


@pytest.mark.parametrize("known", SHIPPED, ids=NAMES)
def test_every_line_that_fits_holds_the_needle(known: Format) -> None:
    for sample, pattern in itertools.product(known.samples, known.patterns):
        for line in sample["text"].encode().splitlines():
            if pattern.regex.search(line) or (pattern.looks and pattern.looks.search(line)):
                assert pattern.needle in line, pattern.name


def test_example_of_the_page_is_a_format_that_works() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", (DOCS / "log-formats.md").read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        assert samples.check(formats.load(block, "example", "docs/log-formats.md")) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("x = [", "f.toml: is not TOML"),
        ("color = 1", "f.toml: does not know 'color'"),
        ("title = 'x'", "f.toml: has no [[lines]]"),
        ("[[lines]]\nrole = 'train'\nneedle = 'x'\nline = 'x'", "f.toml: a line has no 'name'"),
        (
            "[[lines]]\nname = 'a'\nrole = 'train'\nneedle = 'x'\nline = '('",
            "f.toml: 'a' is not a regular expression",
        ),
        (
            "[[lines]]\nname = 'a'\nrole = 'train'\nneedle = 'x'\nline = 'x'\nbad = 1",
            "f.toml: does not know 'bad'",
        ),
        ("[[lines]]\nname = 'a'\nrole = 'tune'\nneedle = 'x'\nline = 'x'", "f.toml: 'a' has no role 'tune'"),
        ("lines = 'x'", "f.toml: 'lines' has a value of a wrong type"),
        ("lines = ['x']", "f.toml: 'lines' has a value of a wrong type"),
        ("last = 'x'", "f.toml: 'last' has a value of a wrong type"),
        ("[names]\na = 1", "f.toml: 'names' has a value of a wrong type"),
        ("[nulls]\na = 'nan'", "f.toml: 'nulls' has a value of a wrong type"),
        ("[[lines]]\nnames = 1.5", "f.toml: 'names' has a value of a wrong type"),
        ("[[lines]]\nname = 1", "f.toml: 'name' has a value of a wrong type"),
        ("[[lines]]\nmust = 'loss'", "f.toml: 'must' has a value of a wrong type"),
        ("x = " + "[" * 10_000, "f.toml: is nested too deeply"),
        (LINE + "pairs = 'comas'", "f.toml: the pairs of 'a' are no style"),
        (LINE + "epochs = 'decimal'", "f.toml: 'a' has no epochs 'decimal'"),
        (LINE + "record = 'often'", "f.toml: 'a' has no record 'often'"),
        (LINE + LINE, "f.toml: has two lines with the name 'a'"),
        (LINE + "[[samples]]\nrows = []", "f.toml: sample 1 has no 'text'"),
        (LINE + "[[samples]]\ntext = 'x'\nrows = [1]", "f.toml: sample 1 has 'rows' that are no tables"),
        ("with = ['nanogtp']\n" + LINE, "f.toml: 'with' names no shipped format: nanogtp"),
    ],
)
def test_load_names_the_place_of_an_error(text: str, fault: str) -> None:
    with pytest.raises(GputelError) as caught:
        formats.load(text, "f", "f.toml")
    assert str(caught.value).startswith(fault)


def test_find_rejects_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"title = '\xff'")
    with pytest.raises(GputelError, match=r"a\.toml: is not UTF-8"):
        formats.find(str(tmp_path / "a.toml"))


def test_find_rejects_a_device_without_an_end() -> None:
    with pytest.raises(GputelError, match="/dev/zero: is larger than 262,144 bytes"):
        formats.find("/dev/zero")


def test_find_rejects_an_unknown_name() -> None:
    with pytest.raises(GputelError, match="no such format"):
        formats.find("nonsense")


@pytest.mark.parametrize("read", [regex_engine.read, numpy_engine.read], ids=["exact", "fast"])
def test_group_that_takes_in_more_than_a_number_makes_a_reject(read: Engine) -> None:
    regex = re.compile(rb"at (?P<step>\d+) loss (?P<loss>\S+)")
    fields = {"step": Field("step", "step"), "loss": Field("loss", "loss")}
    pattern = Pattern("mine.train", "train", regex, b"loss", fields)
    lines = [b"at %d loss %b" % (i, b"1.2.3" if i == 5 else b"%d.5" % i) for i in range(1, 10)]
    reading = read(b"\n".join(lines), (pattern,))
    assert [hit.lines.tolist() for hit in reading.hits] == [[0, 1, 2, 3, 5, 6, 7, 8]]
    assert reading.rejects == [Reject(4, "mine.train", "loss is '1.2.3', expected a number")]


@pytest.mark.parametrize("read", [regex_engine.read, numpy_engine.read], ids=["exact", "fast"])
def test_line_that_holds_what_its_pattern_excludes_is_none_of_it(read: Engine) -> None:
    """Also where a line differs from those above in digits only."""
    regex = re.compile(rb"at (?P<step>\d+) loss (?P<loss>[\d.]+)")
    fields = {"step": Field("step", "step"), "loss": Field("loss", "loss")}
    pattern = Pattern("mine.train", "train", regex, b"loss", fields, unless=re.compile(rb"gpu 7"))
    lines = [b"at %d loss %d.5 gpu %d" % (i, i, i) for i in range(1, 10)]
    reading = read(b"\n".join(lines), (pattern,))
    assert [hit.lines.tolist() for hit in reading.hits] == [[0, 1, 2, 3, 4, 5, 7, 8]]
    assert reading.rejects == []
