"""What --data, --val-data and --tokenizer mean; each layout is recognized by its content."""

from pathlib import Path

import polars
import pytest

from gputel.trainer.data import Corpus, open_corpus
from gputel.trainer.errors import TrainerError
from gputel.trainer.guards import check_corpus

from .corpora import LAYOUTS, STORIES, made


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


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


def test_standard_library_is_the_corpus_where_none_is_given() -> None:
    corpus: Corpus = open_corpus(None, None, None)
    files = corpus.files[0]
    assert not set(files.training) & set(files.validation)
    assert 0.02 < len(files.validation) / len(files.all) < 0.1
    assert sum(p.stat().st_size for p in files.all) > 5e6
    assert corpus.fingerprint == open_corpus(None, None, None).fingerprint


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_is_recognized_by_content_read_and_checked(layout: str, tmp_path: Path) -> None:
    name, vocab = LAYOUTS[layout]
    corpus = open_corpus(str(made(layout, tmp_path / "data")), None, None)
    check_corpus(corpus, vocab, lambda _: True)
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
    with pytest.raises(TrainerError, match=named) as error:
        open_corpus(str(folder), None, None)
    assert wrong.name in str(error.value)


@pytest.mark.parametrize("layout", ["parquet", "npy", "llm.c", "llm.c of llama-3", "nanoGPT", "jsonl"])
def test_truncated_file_is_named(layout: str, tmp_path: Path) -> None:
    folder = made(layout, tmp_path / "data")
    cut = max(p for p in folder.iterdir() if p.name != "meta.pkl")
    cut.write_bytes(cut.read_bytes()[:-5])
    with pytest.raises(TrainerError) as error:
        check_corpus(open_corpus(str(folder), None, None), 128_256, lambda _: True)
    assert cut.name in str(error.value)


def test_parquet_whose_text_is_no_string_is_named(tmp_path: Path) -> None:
    for number in range(2):
        polars.DataFrame({"text": [1, 2, 3]}).write_parquet(tmp_path / f"{number}.parquet")
    corpus = open_corpus(str(tmp_path), None, None)
    with pytest.raises(TrainerError, match=r"0.parquet: has a column text of Int64, not of strings"):
        check_corpus(corpus, 256, lambda _: True)


def test_damaged_page_of_parquet_is_named_with_its_rows_when_it_is_read(tmp_path: Path) -> None:
    folder = made("parquet", tmp_path / "data")
    damaged = min(folder.iterdir())
    content = bytearray(damaged.read_bytes())
    content[8:200] = b"\xff" * 192
    damaged.write_bytes(content)
    corpus = open_corpus(str(folder), None, None)
    with pytest.raises(TrainerError, match=r"shard_00000.parquet, rows 0 to 9: cannot be read"):
        corpus.training(16, 0)


def test_pickle_that_wants_to_run_code_is_refused(tmp_path: Path) -> None:
    folder = made("nanoGPT", tmp_path / "data")
    marker = tmp_path / "ran"
    (folder / "meta.pkl").write_bytes(b"cos\nsystem\n(S'touch " + str(marker).encode() + b"'\ntR.")
    with pytest.raises(TrainerError, match=r"it wants to run os.system"):
        open_corpus(str(folder), None, None)
    assert not marker.exists()
