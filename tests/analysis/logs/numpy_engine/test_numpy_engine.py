"""The fast engine gives the same cells, bit for bit, and the same rejects as the plain one."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputel.analysis.logs import formats, infer, lines, numpy_engine, regex_engine
from gputel.analysis.logs.lines import Splitter
from gputel.analysis.logs.names import Vocabulary
from gputel.analysis.logs.patterns import EngineResult, Field, Hits, Pairs, Pattern

RULES = sorted((Path(__file__).resolve().parents[3] / "logs" / "rules").glob("*.log"))
NOTHING = "records = 0\nevaluations = 0"
TRAININGS = [path for path in RULES if NOTHING not in path.with_suffix(".toml").read_text()]
PAIRS = re.compile(rb"(?P<key>[A-Za-z_][\w ]*): *(?P<value>[^|\s(]+)(?: \((?P<also>[^)]*)\))?")

CLOCKS = st.from_regex(r"([0-9] days?, )?[0-9]{1,3}(:[0-9]{2}){1,2}(\.[0-9]+)?", fullmatch=True)
PRINTED = [
    b"step 00250/16704 (1.50%) | loss: 3.021154 | dt: 658.60ms | tok/sec: 796,060 | bf16_mfu: 49.75 | eta: 183.2m",
    b"Step 00250 | Validation bpb: 1.123456",
    b"iter 100: loss 4.5012, time 200.12ms, mfu -100.00%",
    b"step 500: train loss 1.5289, val loss 1.7201",
    b"{'loss': 3.2345, 'grad_norm': 1.2345678912345, 'learning_rate': 4.982078853046595e-05, 'epoch': 0.01}",
    b"{'eval_loss': 2.1, 'eval_runtime': 12.3456, 'epoch': 1.0}",
    b"step   249 | loss: 6.155902 | lr 2.0979e-04 | norm: 0.8541 | dt: 9500.12ms | tok/sec: 55188.28",
    b"250 train 6.155902",
    b" iteration      100/   50000 | elapsed time per iteration (ms): 500.1 | lm loss: 9.1E+00 | loss scale: 1.0 |",
]


@dataclass
class Counting:
    """A vocabulary that counts what it is asked."""

    asked: Counter[bytes] = field(default_factory=Counter)
    names: Vocabulary = field(default_factory=lambda: Vocabulary(nulls={"mfu": ["-100.00"]}))

    def field(self, key: bytes, unit: bytes) -> Field | None:
        self.asked[key] += 1
        return self.names.field(key, unit)


def pattern(
    regex: bytes, needle: bytes, name: str = "p", pairs: Pairs | None = None, **fields: Field
) -> Pattern:
    return Pattern(name, "train", re.compile(regex), needle, fields, pairs, looks=re.compile(rb"loss: "))


def assert_same(found: EngineResult, expected: EngineResult) -> None:
    assert found.lines == expected.lines
    assert found.rejects == expected.rejects
    assert [hits.pattern for hits in found.hits] == [hits.pattern for hits in expected.hits]
    for ours, theirs in zip(found.hits, expected.hits, strict=True):
        assert_same_hits(ours, theirs)


def assert_same_hits(ours: Hits, theirs: Hits) -> None:
    for places in ("lines", "starts", "begins"):
        np.testing.assert_array_equal(getattr(ours, places), getattr(theirs, places))
    assert list(ours.values) == list(theirs.values)
    assert [(what, list(texts)) for what, texts in ours.texts.items()] == [
        (what, list(texts)) for what, texts in theirs.texts.items()
    ]
    for what, values in theirs.values.items():
        np.testing.assert_array_equal(ours.values[what].present, values.present)
        got, wanted = ours.values[what].numbers, values.numbers
        np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
        numeric = ~np.isnan(wanted)
        np.testing.assert_array_equal(got[numeric].view(np.int64), wanted[numeric].view(np.int64), str(what))


def columns(hits: Hits) -> dict[Field, list[float]]:
    return {what: values.numbers.tolist() for what, values in hits.values.items()}


def both(data: bytes, patterns: tuple[Pattern, ...] = ()) -> EngineResult:
    """The answer on which both engines agree, also where the fast one has seen such lines before."""
    patterns = patterns or _shipped()
    expected = regex_engine.read(data, patterns)
    for _ in range(2):
        assert_same(numpy_engine.read(data, patterns), expected)
    return expected


@lru_cache
def _shipped() -> tuple[Pattern, ...]:
    return formats.patterns(formats.shipped())


def nanochat(step: int, rng: random.Random) -> bytes:
    return (
        f"step {step:05d}/90000 ({step / 900:.2f}%) | loss: {rng.expovariate(0.3):.6f} "
        f"| lrm: {rng.random():.2f} | dt: {rng.uniform(9, 2e4):.2f}ms | tok/sec: {rng.randrange(10**7):,} "
        f"| bf16_mfu: {rng.uniform(0, 60):.2f} | epoch: 1 | total time: {step * 0.11:.2f}m "
        f"| eta: {rng.uniform(0, 900):.1f}m\n"
    ).encode()


def test_engines_agree_on_a_long_log_of_one_format() -> None:
    rng = random.Random(1)
    reading = both(b"".join(nanochat(step, rng) for step in range(1, 2000)))
    assert [len(hits.lines) for hits in reading.hits] == [1999]


def test_regex_engine_reads_one_line_of_each_shape() -> None:
    """Else there would be nothing fast about it."""
    names = Counting()
    patterns = (pattern(rb"^", b"loss", pairs=Pairs(PAIRS, names)),)
    numpy_engine.read(
        b"".join(b"it: %04d | loss: %d.%03d\n" % (i, i % 10, i % 1000) for i in range(10_000)), patterns
    )
    assert 1 <= names.asked[b"loss"] <= 2


def test_engines_agree_on_lines_without_a_common_shape() -> None:
    words = [f"{'x' * (i % 97)}y{'z' * (i // 97)} loss: {i / 7} lr: {i}e-05\n" for i in range(900)]
    both("".join(words).encode(), (pattern(rb"^x*y", b"loss", pairs=Pairs(PAIRS, Vocabulary())),))


def test_engines_agree_on_numbers_of_every_length() -> None:
    """Of up to three words, with commas that stand elsewhere in each, at the start of the data and behind it."""
    whole = [f"{sign}{10**count // 7:,}" for count in range(13) for sign in ("", "-")]
    fractions = [f"{1 / 7:.{count}f}"[1:] for count in range(1, 20)]
    numbers = [a + b for a in whole for b in ("", *fractions)]
    patterns = (pattern(rb"^", b"loss", pairs=Pairs(PAIRS, Vocabulary())),)
    both("".join(f"loss: {number} | lr: {number}\n" * 3 for number in numbers).encode(), patterns)
    seen = (
        pattern(
            rb"^(?P<step>\S+) (?P<loss>\S+)$", b" ", step=Field("step", "step"), loss=Field("loss", "loss")
        ),
    )
    both(
        "".join(
            f"{a.replace(',', '')} {b}\n" * 3 for a, b in zip(numbers, reversed(numbers), strict=True)
        ).encode(),
        seen,
    )


def test_engines_agree_when_shapes_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputel.analysis.logs.numpy_engine.shapes.MOST_SHAPES", 5)
    rng = random.Random(2)
    log = [nanochat(step, rng) for step in range(1, 400)]
    for start in range(0, 400, 50):
        both(b"".join(log[start : start + 50]))


def test_digits_in_a_name_tell_metrics_apart() -> None:
    """`top1` and `top5` are two metrics, though their lines have one shape."""
    lines = [b"loss: %d.5 top%d: 0.%d\n" % (i, (1, 5, 1, 1, 10)[i % 5], i) for i in range(1000)]
    reading = both(b"".join(lines), (pattern(rb"^", b"loss", pairs=Pairs(PAIRS, Vocabulary())),))
    assert {what.column for what in reading.hits[0].values} == {"loss", "top1", "top5", "top10"}


def test_literal_digit_in_a_pattern_is_not_mistaken_for_another() -> None:
    lines = b"".join(b"[rank%d] loss: 1.%d at 8 of 9\n" % (i % 3, i) for i in range(500))
    for regex in (rb"rank0\] loss: (?P<v>\S+)", rb"rank[01]\] loss: (?P<v>\S+)", rb"loss: (?P<v>\S+5) at 8"):
        reading = both(lines, (pattern(regex, b"loss", v=Field("loss", "loss")),))
        assert 0 < len(reading.hits[0].lines) < 500


def test_value_that_repeats_another_is_found_by_a_back_reference() -> None:
    lines = b"".join(b"loss: %d was %d, nothing more to be said\n" % (i % 4, i % 3) for i in range(500))
    reading = both(lines, (pattern(rb"loss: (?P<v>\d+) was (?P=v)", b"loss", v=Field("loss", "loss")),))
    assert len(reading.hits[0].lines) == sum(i % 4 == i % 3 for i in range(500))


def test_placeholder_is_null_and_its_neighbors_are_not() -> None:
    lines = b"".join(
        b"loss: 2.5 | mfu: %s | x\n" % (b"-100.00", b"-200.00", b"N/A")[i % 3] for i in range(600)
    )
    reading = both(lines, (pattern(rb"^", b"loss", pairs=Pairs(PAIRS, Counting())),))
    mfu = next(values for what, values in reading.hits[0].values.items() if what.column == "mfu")
    assert mfu.present.tolist()[:3] == [False, True, False]


@pytest.mark.parametrize(
    "texts",
    [
        [
            "9007199254740993",
            "9007199254740992",
            "900719925474099.3",
            "0.9007199254740993",
            "9007199254740991",
        ],
        ["1e23", "1e22", "9e22", "8.5e-22", "4.9e-32", "1e-400", "1e400", "5e-324", "1.7976931348623157e308"],
        ["1,234,567,890.25", "12,345.678,9", "999,999", "1,234", "1,2,3"],
        ["-0.0", "+0", "-7.", ".5", "-.25e+3", "00012", "nan", "-inf", "Infinity", "NaN"],
        ["123456789012345678", "1234567890123456789", "0.1234567890123456789012", "1" * 40],
        ["4.982078853046595e-05", "2.9e-10", "6.0E-04", "1e5", "1E+05", "3e-00000005"],
    ],
)
@pytest.mark.parametrize("scale", [(0, 1, 1), (3, 1, 1), (-9, 1, 60), (4, 6, 1), (0, 1440, 1), (22, 1, 1)])
def test_numbers_are_what_python_reads(texts: list[str], scale: tuple[int, int, int]) -> None:
    what = Field("v", "v", None, "number", *scale)
    data = "".join(f"value = {text} ..........\n" for text in texts * 200).encode()
    both(data, (pattern(rb"value = (?P<v>\S+)", b"value", v=what),))


@given(
    st.lists(
        st.one_of(
            st.floats().map(repr),
            st.tuples(st.floats(-1e15, 1e15), st.integers(0, 20)).map(lambda p: f"{p[0]:.{p[1]}f}"),
            st.tuples(st.floats(), st.integers(0, 18)).map(lambda p: f"{p[0]:.{p[1]}e}"),
            st.integers(-(10**20), 10**20).map(lambda n: f"{n:,}"),
            st.from_regex(r"[+-]?[0-9]{1,22}(\.[0-9]{0,22})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
        ),
        min_size=1,
        max_size=40,
    ),
    st.integers(-9, 9),
    st.sampled_from([(1, 1), (1, 60), (60, 1), (36, 1)]),
)
@settings(deadline=None, max_examples=40)
def test_numbers_are_what_float_reads_for_any_text(
    texts: list[str], shift: int, factors: tuple[int, int]
) -> None:
    what = Field("v", "v", None, "number", shift, *factors)
    data = "".join(f"{'at':>{i % 9}} value = {text} ...\n" for i, text in enumerate(texts * 300)).encode()
    both(data[: 1 << 13], (pattern(rb"value = (?P<v>\S+)(?= )", b"value", v=what),))


@pytest.mark.parametrize("sign", ["+", "-"])
@pytest.mark.parametrize("digits", ["9007199254740993", "12345678901234567", "1.5"])
def test_one_number_under_many_powers_is_what_python_reads(digits: str, sign: str) -> None:
    data = "".join(f"value = {digits}e{sign}{i % 40:02d} ..........\n" for i in range(600)).encode()
    both(data, (pattern(rb"value = (?P<v>\S+)", b"value", v=Field("v", "v")),))


@given(st.lists(CLOCKS, min_size=1, max_size=9))
@settings(deadline=None, max_examples=40)
def test_clocks_are_what_the_regex_engine_reads(texts: list[str]) -> None:
    what = Field("t", "t", "clock", "clock", 0, 1, 60)
    data = "".join(f"after <{text}> of hard work\n" for text in texts * 250).encode()
    both(data[: 1 << 13], (pattern(rb"after <(?P<t>[^>]+)>", b"after", t=what),))


REGEXES = [
    rb"step (?P<v>\d+)",
    rb"(?P<v>\d{1,3}(?:,\d{3})+)",
    rb"\d(?P<v>\d)\d?$",
    rb"bf16 (?P<v>\d+(?:\.\d+)?)",
    rb"[2-4](?P<v>\d)",
]
TOKENS = st.one_of(
    st.sampled_from(
        [b"step ", b"bf16 ", b"bf17 ", b"loss: ", b"loss: nan", b"| ", b"lr5: ", b"1,234", b"(", b")"]
    ),
    st.from_regex(rb"\d{1,9}(\.\d{1,9})?(e-\d\d)?", fullmatch=True),
    st.binary(max_size=6).map(lambda text: text.replace(b"\n", b"")),
)


@given(
    st.lists(st.lists(TOKENS, max_size=8).map(b"".join), min_size=1, max_size=12),
    st.lists(st.sampled_from(REGEXES), min_size=1, max_size=3, unique=True),
    st.booleans(),
    st.integers(0, 2**32),
)
@settings(deadline=None, max_examples=50)
def test_engines_agree_on_any_lines_and_patterns(
    lines: list[bytes], regexes: list[bytes], paired: bool, seed: int
) -> None:
    pairs = Pairs(PAIRS, Vocabulary(), must=frozenset({"loss"})) if paired else None
    patterns = tuple(
        pattern(regex, b"", f"p{i}", pairs, v=Field("v", "v")) for i, regex in enumerate(regexes)
    )
    rng = random.Random(seed)
    data = b"\n".join(_other_digits(rng.choice(lines), rng) for _ in range(400)).ljust(
        numpy_engine.SMALL, b" "
    )
    both(data, patterns)


def _other_digits(line: bytes, rng: random.Random) -> bytes:
    """Half of the lines stay as they are, and the others keep their shape."""
    if rng.random() < 0.5:
        return line
    return re.sub(rb"\d", lambda _: b"%d" % rng.randrange(10), line)


def mutated(log: bytes, seed: int) -> bytes:
    """What a crash, a second process and a bad disk do to a log."""
    rng = random.Random(seed)
    lines = log.split(b"\n")
    for _ in range(len(lines) // 8 + 1):
        at = rng.randrange(len(lines))
        line = lines[at]
        cut = rng.randrange(len(line) + 1)
        lines[at] = rng.choice(
            [
                line[:cut],
                line[cut:],
                line[:cut] + rng.randbytes(3) + line[cut:],
                line + line,
                line[:cut] + b"nan?",
            ]
        ).replace(b"\n", b" ")
    return b"\n".join(lines)


def clean(log: bytes) -> bytes:
    """As the engines get it."""
    splitter = Splitter()
    return b"".join(chunk.data for chunk in [*splitter.feed(log), *splitter.finish()])


def test_engines_read_only_the_texts_of_lines() -> None:
    """Heads of other lengths stand before them, and hold what would be read as a record."""
    rng = random.Random(1)
    texts = clean(b"\n".join(_other_digits(rng.choice(PRINTED), rng) for _ in range(300))).split(b"\n")
    heads = [rng.choice([b"", b"iter 7: loss 1.5, time 2.00ms, mfu 3.00%", b"[rank0]: "]) for _ in texts]
    data = b"\n".join(head + text for head, text in zip(heads, texts, strict=True)) + b"\n"
    starts = lines.starts(data)
    begins = starts + [len(head) for head in heads]
    found, expected = (
        engine.read(data, _shipped(), starts, begins) for engine in (numpy_engine, regex_engine)
    )
    assert_same(found, expected)
    bare = both(b"\n".join(texts) + b"\n")
    assert [columns(hits) for hits in expected.hits] == [columns(hits) for hits in bare.hits]


@pytest.mark.parametrize("seed", range(3))
def test_engines_agree_on_mixed_formats_with_broken_lines(seed: int) -> None:
    rng = random.Random(seed)
    many = clean(b"\n".join(_other_digits(rng.choice(PRINTED), rng) for _ in range(1500)))
    assert len(both(many).hits) >= 6
    both(clean(mutated(many, seed)))


@pytest.mark.parametrize("path", TRAININGS, ids=lambda path: str(path.stem))
def test_engines_agree_on_what_an_inferred_format_reads(path: Path) -> None:
    """On a log that is long enough for the fast engine, whole and with broken lines."""
    log = clean(path.read_bytes())
    inferred = infer.infer(log)
    assert inferred is not None
    long = log * (1 + 2 * numpy_engine.SMALL // len(log))
    assert both(long, inferred.format.patterns).hits
    both(clean(mutated(long, len(log))), inferred.format.patterns)


@pytest.mark.long
@pytest.mark.real_logs
def test_engines_agree_on_real_logs_with_broken_lines(real_logs: Path) -> None:
    for path in sorted(real_logs.rglob("*")):
        if path.is_file() and path.suffix != ".jsonl":
            log = clean(path.read_bytes()[: 512 << 10])
            both(log)
            both(clean(mutated(log[: 64 << 10], len(log))))
