"""Stores that the real tools made, which lie beside the checkout, against what is known to be in them."""

import json
from pathlib import Path
from typing import Any

import pytest

from gputel.analysis import stores

FOLDER = Path(__file__).resolve().parents[3].parent / "shared" / "stores"
TRUTH = FOLDER / "truth.jsonl"
CASES = [json.loads(line) for line in TRUTH.read_text().splitlines()] if TRUTH.is_file() else []


@pytest.mark.real_logs
@pytest.mark.skipif(not CASES, reason="the stores do not lie beside this checkout")
@pytest.mark.parametrize("case", CASES, ids=[case["path"] for case in CASES])
def test_store_has_the_records_losses_and_evaluations_that_were_written(case: dict[str, Any]) -> None:
    log, truth = stores.read(FOLDER / case["path"]), case["ground_truth"]
    train, losses = truth["train"], log.records["loss"].drop_nulls()
    finite = losses.filter(losses.is_finite())
    steps = log.records["step"]
    assert (log.records.height, steps.min(), steps[-1]) == (
        train["n"],
        train["first_step"],
        train["last_step"],
    )
    assert (finite[0], finite[-1]) == (train["first_loss"], train["last_loss"])
    assert (finite.min(), finite.max()) == (train["min_loss"], train["max_loss"])
    assert len(losses) - len(finite) == train["nan_loss_records"]
    if "val_loss" in truth:
        evals = log.evals.filter(log.evals["name"] == "val_loss")
        pairs = evals.select("step", "value").rows()
        smallest = min(pairs, key=lambda pair: pair[1])
        expected = truth["val_loss"]
        assert len(pairs) == expected["n"]
        assert [list(pairs[0]), list(pairs[-1]), list(smallest)] == [
            expected["first"],
            expected["last"],
            expected["min"],
        ]


@pytest.mark.real_logs
@pytest.mark.skipif(not CASES, reason="the stores do not lie beside this checkout")
def test_damaged_length_costs_one_record_of_604() -> None:
    log = stores.read(FOLDER / "tb" / "badlen")
    assert log.records.height == 200
    assert [reject.reason for reject in log.rejects] == ["the length of a record is damaged"]
