"""Files of data that are cut, torn or of another kind are named before the first step."""

from pathlib import Path

import numpy as np
import polars
import pytest

from gputel.trainer.data import open_corpus
from gputel.trainer.layouts import check_ids, check_samples
from gputel.trainer.say import TrainerError

from .corpora import made


@pytest.mark.parametrize("layout", ["parquet", "npy", "llm.c", "llm.c of llama-3", "nanoGPT", "jsonl"])
def test_truncated_file_is_named(layout: str, tmp_path: Path) -> None:
    folder = made(layout, tmp_path / "data")
    cut = max(p for p in folder.iterdir() if p.name != "meta.pkl")
    cut.write_bytes(cut.read_bytes()[:-5])
    with pytest.raises(TrainerError) as error:
        open_corpus(str(folder), None).check(128_256)
    assert cut.name in str(error.value)


def test_parquet_whose_text_is_no_string_is_named(tmp_path: Path) -> None:
    for number in range(2):
        polars.DataFrame({"text": [1, 2, 3]}).write_parquet(tmp_path / f"{number}.parquet")
    corpus = open_corpus(str(tmp_path), None)
    with pytest.raises(TrainerError, match=r"0.parquet: has a column text of Int64, not of strings"):
        corpus.check(256)


def test_id_beyond_the_vocabulary_is_named() -> None:
    tokens = np.array([1, 2, 300, 4], np.uint16)
    with pytest.raises(TrainerError, match=r"shard.bin: holds the token 300, the vocabulary has 256"):
        check_ids("shard.bin", tokens, 256)
    check_ids("shard.bin", tokens, 301)


@pytest.mark.parametrize("whole", [10_000, 1_000_000])
def test_zero_tail_of_an_aborted_download_is_named(tmp_path: Path, whole: int) -> None:
    tokens = np.arange(whole, dtype=np.uint16) % 50_000 + 1
    tokens[whole * 3 // 5 :] = 0
    (tmp_path / "train.bin").write_bytes(tokens.tobytes())
    corpus = open_corpus(str(tmp_path), None)
    with pytest.raises(TrainerError, match=r"train.bin: holds 2,048 zeros from token .*fetch it again"):
        corpus.check(50_257)


@pytest.mark.parametrize("vocab", [50_257, 128_256])
def test_tokens_of_32_bits_read_as_16_are_named(tmp_path: Path, vocab: int) -> None:
    tokens = np.random.RandomState(0).randint(vocab, size=20_000).astype("<u4")
    (tmp_path / "train.bin").write_bytes(tokens.tobytes())
    corpus = open_corpus(str(tmp_path), None)
    with pytest.raises(TrainerError, match=r"train.bin: is read as tokens of 16 bits, .* of 32\?"):
        corpus.check(65_536)


@pytest.mark.parametrize("vocab", [2, 65, 50_257])
def test_tokens_of_any_small_vocabulary_pass(vocab: int) -> None:
    tokens = np.random.RandomState(0).randint(vocab, size=20_001).astype(np.uint16)
    check_samples("train.bin", tokens)
