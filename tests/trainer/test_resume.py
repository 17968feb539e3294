"""A run that was interrupted and resumed, each time in a new process, is the run that was not: to the last bit."""

import re
import signal
from pathlib import Path

import pytest

from .conftest import Left, Start, Train, same, same_tensors

STEPS = ("--steps", "10", "--device-batch-size", "4")
pytestmark = pytest.mark.long


@pytest.fixture
def mixture(tmp_path: Path) -> str:
    """Two small corpora, of which ten steps of four rows are several epochs."""
    for name, word in (("a", "alpha"), ("b", "beta")):
        (tmp_path / name).mkdir()
        for number in range(3):
            text = " ".join(f"{word} {i * 7919 % 1000} {number}" for i in range(40))
            (tmp_path / name / f"{number}.txt").write_text(text)
    return f"{tmp_path}/a=0.7,{tmp_path}/b=0.3"


def interrupted(train: Train, out: Path, *options: str, ranks: int = 1, then: int | None = None) -> Left:
    """Stop after step 5, go on in another process, on `then` ranks."""
    train(out, *options, "--stop-at", "5", ranks=ranks)
    return train(out, *options, "--resume", "auto", ranks=then or ranks)


@pytest.mark.parametrize(
    ("options", "ranks"),
    [
        pytest.param((), 1, id="plain"),
        pytest.param(("--total-batch-size", "512"), 1, id="accumulation"),
        pytest.param(("--total-batch-size", "512"), 2, id="two ranks that accumulate"),
        pytest.param(("--dtype", "bf16"), 1, id="bf16"),
        pytest.param(("--optimizer", "adamw", "--schedule", "cosine"), 1, id="adamw"),
        pytest.param(("--shard", "fsdp"), 2, id="fsdp"),
        pytest.param(
            ("--shard", "fsdp", "--dtype", "bf16", "--total-batch-size", "512"), 2, id="fsdp in bf16"
        ),
    ],
)
def test_resume_equals_no_interruption(
    tmp_path: Path, train: Train, options: tuple[str, ...], ranks: int
) -> None:
    whole = train(tmp_path / "whole", *STEPS, *options, ranks=ranks)
    broken = interrupted(train, tmp_path / "broken", *STEPS, *options, ranks=ranks)
    same(whole, broken)


@pytest.mark.parametrize("ranks", [1, 2])
def test_resume_reads_a_shuffled_mixture_on_across_an_epoch_border(
    tmp_path: Path, train: Train, mixture: str, ranks: int
) -> None:
    options = (*STEPS, "--data", mixture, "--total-batch-size", "512")
    whole = train(tmp_path / "whole", *options, ranks=ranks)
    broken = interrupted(train, tmp_path / "broken", *options, ranks=ranks)
    same(whole, broken)
    epochs = {row["epoch"] for row in whole.metrics("step")}
    assert len(epochs) > 2


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_world_resized_goes_on_as_if_it_had_always_been_so(
    tmp_path: Path, train: Train, mixture: str, before: int, after: int
) -> None:
    options = (*STEPS, "--data", mixture, "--total-batch-size", "256")
    whole = train(tmp_path / "whole", *options, ranks=before)
    resized = interrupted(train, tmp_path / "resized", *options, ranks=before, then=after)
    same(whole, resized)


@pytest.mark.parametrize(
    ("before", "after"), [("3 fsdp", "2 fsdp"), ("2 fsdp", "1 none"), ("2 none", "2 fsdp")]
)
def test_checkpoint_loads_on_another_number_of_ranks_sharded_or_not(
    tmp_path: Path, train: Train, before: str, after: str
) -> None:
    """Loaded and saved again before the next step it holds the same bits, without the padding of the vocabulary;
    and the training goes on from there."""

    def trained(name: str, ranks_and_shard: str, *more: str) -> Left:
        ranks, shard = ranks_and_shard.split()
        batch = ("--steps", "10", "--device-batch-size", "2", "--total-batch-size", str(2 * 32 * 6))
        return train(tmp_path / name, "--vocab", "300", *batch, "--shard", shard, *more, ranks=int(ranks))

    one = trained("one", before, "--stop-at", "5")
    source = str(one.out / "checkpoints" / "latest")
    other = trained("other", after, "--stop-at", "5", "--resume", source)
    same_tensors(one, other)
    assert {one.tensors()[f"{key}.weight"].shape[0] for key in ("model:embedding", "model:head")} == {300}
    on = trained("other", after, "--stop-at", "6", "--resume", "latest")
    assert list(on.losses()) == [5]


@pytest.mark.parametrize("shard", ["none", "fsdp"])
def test_checkpoint_that_an_evaluation_called_for_goes_on_bit_for_bit(
    tmp_path: Path, train: Train, shard: str
) -> None:
    """It is saved right after forward passes without backward ones."""
    options = (*STEPS, "--eval-every", "4", "--shard", shard)
    whole = train(tmp_path / "whole", *options, ranks=2)
    best = whole.out / "checkpoints" / "step_000004"
    on = train(tmp_path / "on", *options, "--resume", str(best), ranks=2)
    same_tensors(whole, on)
    assert list(on.losses()) == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_signal_in_the_middle_of_a_step_leaves_a_checkpoint_that_goes_on_bit_for_bit(
    tmp_path: Path, train: Train, start: Start, name: str, ranks: int
) -> None:
    """Sent to one rank alone; all stop at the same step."""
    options = ("--steps", "80", "--device-batch-size", "4")
    whole = train(tmp_path / "whole", *options, ranks=ranks)
    run = start(tmp_path / "broken", *options, ranks=ranks)
    run.at("step 00003/")
    run.send(getattr(signal, name), rank=ranks - 1)
    codes, output = run.end()
    assert f"received {name}" in output
    assert codes == [128 + getattr(signal, name)] * ranks
    end = Left(tmp_path / "broken").metrics("run_end")[0]
    assert end["reason"] == name
    assert 4 <= end["step"] < 80
    same(whole, train(tmp_path / "broken", *options, "--resume", "latest", ranks=ranks))


def test_usr1_saves_and_goes_on(tmp_path: Path, start: Start) -> None:
    run = start(tmp_path / "run", "--steps", "80", "--device-batch-size", "4")
    run.at("step 00003/")
    run.send(signal.SIGUSR1)
    codes, output = run.end()
    assert codes == [0]
    first, last = map(int, re.findall(r"Saved model file to: .*step_(\d+)", output))
    assert 4 <= first < 80
    assert last == 80
