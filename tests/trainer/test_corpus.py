"""What --data, --val-data and --tokenizer mean."""

from pathlib import Path

import pytest

from gputel.trainer.corpus import Corpus, open_corpus
from gputel.trainer.errors import TrainerError

from .corpora import STORIES, made


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
