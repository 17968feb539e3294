"""What --data and --tokenizer mean; bad files are named before the first step."""

from pathlib import Path

import polars
import pytest
import torch
from click.testing import CliRunner

from gputel.trainer import data
from gputel.trainer.__main__ import main
from gputel.trainer.data import Corpus, open_corpus, shuffled
from gputel.trainer.say import TrainerError

from .conftest import TINY, Left, Start, same
from .corpora import LAYOUTS, STORIES, made


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_standard_library_is_the_corpus_where_none_is_given() -> None:
    corpus: Corpus = open_corpus(None, None)
    files = corpus.files[0]
    assert not set(files.training) & set(files.validation)
    assert 0.02 < len(files.validation) / len(files.all) < 0.1
    assert sum(p.stat().st_size for p in files.all) > 5e6
    assert corpus.fingerprint == open_corpus(None, None).fingerprint


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_is_recognized_by_content_read_and_checked(layout: str, tmp_path: Path) -> None:
    name, vocab = LAYOUTS[layout]
    corpus = open_corpus(str(made(layout, tmp_path / "data")), None)
    corpus.check(vocab)
    assert (corpus.files[0].layout.name, corpus.vocab) == (name, vocab)
    assert len(corpus.files[0].training) == len(corpus.files[0].validation) == 1
    row = corpus.training(16, 0).row(3)
    assert len(row) == 17
    assert corpus.validation(16)
    assert (corpus.tokenizer is None) == (name in {"npy", "llm.c"})


@pytest.mark.parametrize("layout", ["text", "jsonl", "parquet"])
def test_all_text_of_a_layout_arrives(layout: str, tmp_path: Path) -> None:
    corpus = open_corpus(str(made(layout, tmp_path / "data")), "bytes")
    shard = corpus.shards(corpus.files[0])[0][0]
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
        open_corpus(str(folder), None)
    assert wrong.name in str(error.value)


def test_damaged_page_of_parquet_is_named_with_its_rows_when_it_is_read(tmp_path: Path) -> None:
    folder = made("parquet", tmp_path / "data")
    damage(min(folder.iterdir()))
    corpus = open_corpus(str(folder), None)
    with pytest.raises(TrainerError, match=r"shard_00000.parquet, rows 0 to 9: cannot be read"):
        corpus.training(16, 0)


def test_pickle_that_wants_to_run_code_is_refused(tmp_path: Path) -> None:
    folder = made("nanoGPT", tmp_path / "data")
    marker = tmp_path / "ran"
    (folder / "meta.pkl").write_bytes(b"cos\nsystem\n(S'touch " + str(marker).encode() + b"'\ntR.")
    with pytest.raises(TrainerError, match=r"it wants to run os.system"):
        open_corpus(str(folder), None)
    assert not marker.exists()


def damage(path: Path) -> None:
    """The pages of a parquet file; its end, which lists them, stays whole."""
    content = bytearray(path.read_bytes())
    content[8:200] = b"\xff" * 192
    path.write_bytes(content)


def test_files_to_be_skipped_are_noted_and_the_others_are_read(tmp_path: Path) -> None:
    folder = made("parquet", tmp_path / "data")
    (folder / "page.parquet").write_text("<html>403 Forbidden</html>")
    polars.DataFrame({"text": [1, 2]}).write_parquet(folder / "numbers.parquet")
    corpus = open_corpus(str(folder), None, skip_bad=True)
    corpus.check(256)
    assert corpus.left_out
    assert [Path(place).name for place in corpus.left_out] == ["page.parquet", "numbers.parquet"]
    rest = corpus.readable().files[0]
    assert [path.name for path in rest.all] == ["shard_00000.parquet", "shard_00001.parquet"]


def test_corpus_of_which_nothing_is_left_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.parquet").write_text("<html>403 Forbidden</html>")
    with pytest.raises(TrainerError, match="holds no file that can be read"):
        open_corpus(str(tmp_path), None, skip_bad=True)


def test_rows_that_cannot_be_read_are_skipped_and_every_run_notes_them(tmp_path: Path) -> None:
    """They are in no cache that would hide them from the next run."""
    folder = made("parquet", tmp_path / "data")
    polars.DataFrame({"text": STORIES}).write_parquet(folder / "a.parquet")
    damage(folder / "a.parquet")
    for _ in range(2):
        corpus = open_corpus(str(folder), None, skip_bad=True)
        assert corpus.training(16, 0).row(3).any()
        assert list(corpus.left_out or ()) == [f"{folder / 'a.parquet'}, rows 0 to 9"]


@pytest.mark.long
def test_damaged_file_that_is_met_ends_the_run_with_a_checkpoint_from_which_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the file is whole again, to the last bit as if it had always been."""
    monkeypatch.setattr(data, "TEXT_PER_SHARD", 1)
    # so that the damage is no other corpus, as in files of a real size
    monkeypatch.setattr(data, "EDGE_BYTES", 8)
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(4):
        polars.DataFrame({"text": STORIES[:1]}).write_parquet(folder / f"{number}.parquet")
    last = folder / f"{shuffled(3, 0, str(folder), 'shards', 0)[-1]}.parquet"
    whole = trained(folder, tmp_path / "whole")
    content = last.read_bytes()
    damage(last)
    stopped = trained(folder, tmp_path / "run", code=1)
    assert f"{last}, rows 0 to 0: cannot be read" in (tmp_path / "run" / "log.txt").read_text()
    end = stopped.metrics("run_end")[0]
    assert (end["reason"], 0 < end["step"] < STEPS) == ("bad data", True)
    assert stopped.checkpoints() == [f"step_{end['step']:06d}"]
    last.write_bytes(content)
    same(whole, trained(folder, tmp_path / "run", "--resume", "auto"))


STEPS = 24


def trained(folder: Path, out: Path, *options: str, code: int = 0) -> Left:
    torch.set_num_threads(1)
    where = ("--data", str(folder), "--out", str(out), "--steps", str(STEPS), "--device-batch-size", "4")
    result = CliRunner().invoke(main, [*TINY, *where, *options])
    assert result.exit_code == code, result.output
    return Left(out)


def read_shards_one_by_one() -> None:
    data.TEXT_PER_SHARD = 1


@pytest.mark.long
def test_two_ranks_stop_together_where_one_of_them_meets_data_that_it_cannot_read(
    tmp_path: Path, start: Start
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("a", "b", "val"):
        polars.DataFrame({"text": STORIES[:2]}).write_parquet(folder / f"{name}.parquet")
    damage(folder / ("a.parquet", "b.parquet")[shuffled(2, 0, str(folder), "shards", 0)[-1]])
    options = ("--data", str(folder), "--steps", "40", "--device-batch-size", "4")
    run = start(tmp_path / "run", *options, ranks=2, sabotage=read_shards_one_by_one)
    codes, output = run.end()
    assert codes == [1, 1], output
    assert Left(tmp_path / "run").metrics("run_end")[0]["reason"] == "bad data"
    skipping = start(
        tmp_path / "run",
        *options,
        "--resume",
        "auto",
        "--skip-bad-data",
        "--stop-at",
        "14",
        ranks=2,
        sabotage=read_shards_one_by_one,
    )
    codes, output = skipping.end()
    assert codes == [0, 0], output
    assert Left(tmp_path / "run").metrics("bad_data")[0]["left_out"] == 1
