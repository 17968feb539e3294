"""Text from a model, on a CPU."""

from gputel.trainer.evaluate import sampled
from gputel.trainer.model import Model
from gputel.trainer.tokenizer import remade

from .small_model import CPU, stirred


def test_sample_repeats_itself_with_the_same_dice(model: Model) -> None:
    stirred(model)
    tokenizer = remade({"kind": "bytes"})
    texts = [sampled(model, tokenizer, "def ", 40, 32, CPU, seed=seed) for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]
    assert texts[0].startswith("def ")
