"""Files in, rows out: each layout is told by its content, and a wrong file is named before the first step."""

import json
import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputel.trainer.data.check import check_ids, check_samples
from gputel.trainer.data.corpus import Corpus, open_corpus
from gputel.trainer.data.mixture import BLOCK, Mixture, shares
from gputel.trainer.data.shard import Shard
from gputel.trainer.data.source import Source
from gputel.trainer.errors import TrainerError

TOKENS = np.arange(5000) % 50_000
STORIES = [f"Once upon a time number {i} there was a story. " * 20 for i in range(10)]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def llmc(path: Path, magic: int, version: int, dtype: str) -> None:
    header = np.zeros(256, "<i4")
    header[:3] = magic, version, len(TOKENS)
    path.write_bytes(header.tobytes() + TOKENS.astype(dtype).tobytes())


def parquet(folder: Path) -> None:
    for number in range(2):
        polars.DataFrame({"text": STORIES}).write_parquet(folder / f"shard_{number:05d}.parquet")


def npy(folder: Path) -> None:
    for split in ("train", "val"):
        np.save(folder / f"edufineweb_{split}_000001.npy", TOKENS.astype(np.uint16))


def gpt2_bin(folder: Path) -> None:
    for split in ("train", "val"):
        llmc(folder / f"tiny_{split}.bin", 20240520, 1, "<u2")


def llama_bin(folder: Path) -> None:
    for split in ("train", "val"):
        llmc(folder / f"tiny_{split}.bin", 20240801, 7, "<u4")


def nanogpt(folder: Path) -> None:
    for split in ("train", "val"):
        (folder / f"{split}.bin").write_bytes((TOKENS % 65).astype("<u2").tobytes())
    meta = {"vocab_size": 65, "itos": {i: chr(48 + i) for i in range(65)}, "stoi": {}}
    (folder / "meta.pkl").write_bytes(pickle.dumps(meta))


def text(folder: Path) -> None:
    for number in range(2):
        (folder / f"{number}.txt").write_text("\n".join(STORIES))


def jsonl(folder: Path) -> None:
    for number in range(2):
        (folder / f"{number}.jsonl").write_text("".join(json.dumps({"text": s}) + "\n" for s in STORIES))


def made(layout: str, folder: Path) -> Path:
    """Two files of a layout, as its users have them: training and validation."""
    folder.mkdir()
    MAKERS[layout](folder)
    return folder


MAKERS: dict[str, Callable[[Path], None]] = {
    "parquet": parquet,
    "npy": npy,
    "llm.c": gpt2_bin,
    "llm.c of llama-3": llama_bin,
    "nanoGPT": nanogpt,
    "text": text,
    "jsonl": jsonl,
}
LAYOUTS = {
    "parquet": ("parquet", 256),
    "npy": ("npy", 50_257),
    "llm.c": ("llm.c", 50_257),
    "llm.c of llama-3": ("llm.c", 128_256),
    "nanoGPT": ("nanoGPT", 65),
    "text": ("text", 256),
    "jsonl": ("jsonl", 256),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_is_told_by_content_read_and_checked(layout: str, tmp_path: Path) -> None:
    name, vocab = LAYOUTS[layout]
    corpus = open_corpus(str(made(layout, tmp_path / "data")), None, None)
    corpus.check(vocab, lambda _: True)
    assert (corpus.files[0].layout.name, corpus.vocab) == (name, vocab)
    assert len(corpus.files[0].training) == len(corpus.files[0].validation) == 1
    row = corpus.training(16, 0).row(3)
    assert len(row) == 17
    assert corpus.validation(16)
    assert (corpus.tokenizer is None) == (name in {"npy", "llm.c"})


@pytest.mark.parametrize("layout", ["text", "jsonl", "parquet"])
def test_all_text_of_a_layout_arrives(layout: str, tmp_path: Path) -> None:
    corpus = open_corpus(str(made(layout, tmp_path / "data")), None, "bytes")
    shard = corpus.files[0].shards(corpus.tokenizer)[0][0]
    assert bytes(shard.tokens).decode() == "\n" + "\n".join(STORIES)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (b"<!DOCTYPE html><html><body>403 Forbidden</body></html>", "page, not data"),
        (b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', "page, not data"),
        (b"", "is empty"),
        (b"\0" * 5000, "full of zeros"),
    ],
)
def test_file_that_is_something_else_is_named(layout: str, damage: bytes, named: str, tmp_path: Path) -> None:
    folder = made(layout, tmp_path / "data")
    wrong = max(p for p in folder.iterdir() if p.name != "meta.pkl")
    wrong.write_bytes(damage)
    with pytest.raises(TrainerError, match=named) as told:
        open_corpus(str(folder), None, None)
    assert wrong.name in str(told.value)


@pytest.mark.parametrize("layout", ["parquet", "npy", "llm.c", "llm.c of llama-3", "nanoGPT", "jsonl"])
def test_truncated_file_is_named(layout: str, tmp_path: Path) -> None:
    folder = made(layout, tmp_path / "data")
    cut = max(p for p in folder.iterdir() if p.name != "meta.pkl")
    cut.write_bytes(cut.read_bytes()[:-5])
    with pytest.raises(TrainerError) as told:
        open_corpus(str(folder), None, None).check(128_256, lambda _: True)
    assert cut.name in str(told.value)


def test_id_beyond_the_vocabulary_is_named() -> None:
    shard = Shard("shard.bin", lambda: np.array([1, 2, 300, 4], np.uint16))
    with pytest.raises(TrainerError, match=r"shard.bin: holds the token 300, the vocabulary has 256"):
        check_ids(shard, 256)
    check_ids(shard, 301)


@pytest.mark.parametrize("whole", [10_000, 1_000_000])
def test_zero_tail_of_an_aborted_download_is_named(tmp_path: Path, whole: int) -> None:
    tokens = np.arange(whole, dtype=np.uint16) % 50_000 + 1
    tokens[whole * 3 // 5 :] = 0
    (tmp_path / "train.bin").write_bytes(tokens.tobytes())
    corpus = open_corpus(str(tmp_path), None, None)
    with pytest.raises(TrainerError, match=r"train.bin: holds 2,048 zeros from token .*fetch it again"):
        corpus.check(50_257, lambda _: True)


@pytest.mark.parametrize("vocab", [50_257, 128_256])
def test_tokens_of_32_bits_read_as_16_are_named(tmp_path: Path, vocab: int) -> None:
    tokens = np.random.RandomState(0).randint(vocab, size=20_000).astype("<u4")
    (tmp_path / "train.bin").write_bytes(tokens.tobytes())
    corpus = open_corpus(str(tmp_path), None, None)
    with pytest.raises(TrainerError, match=r"train.bin: is read as tokens of 16 bits, .* of 32\?"):
        corpus.check(65_536, lambda _: True)


@pytest.mark.parametrize("vocab", [2, 65, 50_257])
def test_tokens_of_any_small_vocabulary_pass(vocab: int) -> None:
    tokens = np.random.RandomState(0).randint(vocab, size=20_001).astype(np.uint16)
    check_samples(Shard("train.bin", lambda: tokens))


def test_parquet_whose_text_is_no_string_is_named(tmp_path: Path) -> None:
    for number in range(2):
        polars.DataFrame({"text": [1, 2, 3]}).write_parquet(tmp_path / f"{number}.parquet")
    corpus = open_corpus(str(tmp_path), None, None)
    with pytest.raises(TrainerError, match=r"0.parquet: has a column text of Int64, not of strings"):
        corpus.check(256, lambda _: True)


def test_damaged_page_of_parquet_is_named_with_its_rows_when_it_is_read(tmp_path: Path) -> None:
    folder = made("parquet", tmp_path / "data")
    damaged = min(folder.iterdir())
    content = bytearray(damaged.read_bytes())
    content[8:200] = b"\xff" * 192
    damaged.write_bytes(content)
    corpus = open_corpus(str(folder), None, None)
    with pytest.raises(TrainerError, match=r"shard_00000.parquet, row 0: cannot be read"):
        corpus.training(16, 0)


def test_pickle_that_wants_to_run_code_is_refused(tmp_path: Path) -> None:
    folder = made("nanoGPT", tmp_path / "data")
    marker = tmp_path / "ran"
    (folder / "meta.pkl").write_bytes(b"cos\nsystem\n(S'touch " + str(marker).encode() + b"'\ntR.")
    with pytest.raises(TrainerError, match=r"it wants to run os.system"):
        open_corpus(str(folder), None, None)
    assert not marker.exists()


def test_missing_evaluation_files_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="does not exist"):
        open_corpus(str(made("text", tmp_path / "data")), str(tmp_path / "nowhere"), None)


def test_validation_files_given_apart_leave_all_the_data_for_training(tmp_path: Path) -> None:
    train, val = made("text", tmp_path / "a"), made("text", tmp_path / "b")
    corpus = open_corpus(str(train), str(val), None)
    assert len(corpus.files[0].training) == 2
    assert {p.parent for p in corpus.files[0].validation} == {val}


def test_characters_make_a_vocabulary_that_gives_the_text_back(tmp_path: Path) -> None:
    corpus = open_corpus(str(made("text", tmp_path / "data")), None, "chars")
    assert corpus.tokenizer
    ids = corpus.tokenizer.encode(["a story"])[0]
    assert corpus.tokenizer.decode([int(i) for i in ids]) == "a story"
    assert corpus.vocab == len(set("\n".join(STORIES))) + 1


def source(rows: int, shards: int = 3, seed: int = 0) -> Source:
    """Every row starts with a number of its own."""

    def shard(number: int) -> Shard:
        return Shard(f"{number}", lambda: np.arange(number * rows * 4, (number + 1) * rows * 4 + 1))

    return Source("s", [shard(i) for i in range(shards)], 4, seed)


def test_epoch_sees_every_row_once_and_the_next_in_another_order() -> None:
    rows = source(10)
    epochs = [[int(rows.row(30 * epoch + i)[0]) for i in range(30)] for epoch in range(3)]
    assert [sorted(epoch) for epoch in epochs] == [sorted(range(0, 120, 4))] * 3
    assert epochs[0] != epochs[1] != epochs[2]
    assert [rows.epoch(n) for n in (0, 29, 30, 89)] == [0, 0, 1, 2]


@settings(max_examples=50)
@given(st.lists(st.integers(0, 200), min_size=1, max_size=20))
def test_row_is_the_same_wherever_one_comes_from(numbers: list[int]) -> None:
    wanderer = source(7)
    for number in numbers:
        fresh = source(7)
        assert int(wanderer.row(number)[0]) == int(fresh.row(number)[0])
        assert wanderer.epoch(number) == fresh.epoch(number)


@settings(max_examples=30)
@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=5))
def test_every_block_of_a_mixture_holds_the_shares(weights: list[float]) -> None:
    counts = shares(weights)
    mixture = Mixture([source(50) for _ in weights], weights, seed=1)
    for block in (0, 3):
        drawn = [mixture.place(block * BLOCK + i) for i in range(BLOCK)]
        assert Counter(which for which, _ in drawn) == dict(enumerate(counts))
        for which, count in enumerate(counts):
            own = [number for s, number in drawn if s == which]
            assert own == list(range(block * count, (block + 1) * count))
    assert sum(counts) == BLOCK
    assert all(abs(c / BLOCK - w / sum(weights)) <= 2 / BLOCK for c, w in zip(counts, weights, strict=True))


def test_shares_that_users_mix(tmp_path: Path) -> None:
    assert shares([0.65, 0.34, 0.01]) == [650, 340, 10]


def test_standard_library_is_the_corpus_where_none_is_given() -> None:
    corpus: Corpus = open_corpus(None, None, None)
    files = corpus.files[0]
    assert not set(files.training) & set(files.validation)
    assert 0.02 < len(files.validation) / len(files.all) < 0.1
    assert sum(p.stat().st_size for p in files.all) > 5e6
    assert corpus.fingerprint == open_corpus(None, None, None).fingerprint
