"""Local tokenizer files: text to tokens and back, and how many bytes each token stands for."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gputel.trainer.__main__ import main
from gputel.trainer.say import TrainerError
from gputel.trainer.tokenizer import Tokenizer, remade, tokenizer_from

from .conftest import TINY, Left, Run

TEXT = "The quick brown fox jumps over the lazy dog, über 9 Zäune.\n" * 50


def byte_level(path: Path) -> Path:
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer: Any = tokenizers.trainers.BpeTrainer(
        vocab_size=320, special_tokens=["<|bos|>"], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator([TEXT], trainer)
    made.save(str(path))
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return byte_level(tmp_path / "tokenizer.json")


def test_text_comes_back_and_its_bytes_are_counted(file: Path) -> None:
    tokenizer: Tokenizer = tokenizer_from(str(file))
    ids = [int(i) for i in tokenizer.encode([TEXT])[0]]
    assert tokenizer.decode(ids) == TEXT
    assert int(tokenizer.byte_lengths[ids].sum()) == len(TEXT.encode())
    assert [int(tokenizer.byte_lengths[i]) for i in tokenizer.separator] == [0]
    assert max(ids) < tokenizer.vocab == len(tokenizer.byte_lengths)


def test_run_with_a_tokenizer_file_says_bits_per_byte_and_writes_text(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for name in ("a.txt", "val.txt"):
        (tmp_path / "data" / name).write_text(TEXT)
    options = f"--data data --tokenizer {file} --steps 2 --device-batch-size 2 --out run --eval-every 2"
    trained = CliRunner().invoke(main, [*TINY, *options.split()])
    assert trained.exit_code == 0, trained.output
    row = Left(tmp_path / "run").metrics("eval_end")[-1]
    assert 0 < row["val_bpb"] < row["val_loss"] / 0.6931471805599453
    text = CliRunner().invoke(main, "sample run/weights.pt --prompt quick --length 5".split())
    assert text.stdout.startswith("quick")


def test_tokenizer_that_has_changed_is_refused(file: Path) -> None:
    recipe = tokenizer_from(str(file)).recipe
    file.write_bytes(file.read_bytes() + b"\n")
    with pytest.raises(TrainerError, match="is not the tokenizer of this run any more; restore the file"):
        remade(recipe)


def test_another_tokenizer_does_not_go_on(run: Run, file: Path) -> None:
    wide = ("--steps", "4", "--vocab", "320")
    run(*wide, "--stop-at", "2", "--tokenizer", str(file))
    other = run(*wide, "--resume", "auto", code=1)
    assert "was trained with another tokenizer; see --tokenizer" in other.stderr


def test_file_that_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    for content in ("{}", "<html>403</html>", ""):
        (tmp_path / "t").write_text(content)
        with pytest.raises(TrainerError, match=r"/t: is n.*"):
            tokenizer_from(str(tmp_path / "t"))
