"""Printed settings have the names of measures, and are recognized by what stands around them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputel.analysis.logs import setting_lines
from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]

RECORDS = "".join(
    f"epoch {epoch} step {step} loss {9 - epoch - step / 100:.4f} lr 0.001\n"
    + (f"val_loss: {8 - epoch:.3f}\n" if step == 30 else "")
    for epoch in (1, 2, 3)
    for step in (10, 20, 30)
)
DICT = "{'model': 'resnet', 'lr': 0.001, 'val_loss_weight': 0.5, 'test_acc': 0.9, 'epochs': 3, 'amp': True}\n"
YAML = "model: resnet50\noptimizer:\n  lr: 0.001\nval_loss_weight: 0.5\ntest_acc_min: 0.9\nbatch_size: 32\n"


@pytest.mark.parametrize(
    "printed",
    [
        DICT,
        DICT * 4,
        YAML,
        "".join(f"2024-05-01 10:00:00,123 - INFO - {line}\n" for line in YAML.splitlines()),
        "Namespace(\n    lr=0.001,\n    val_loss_weight=0.5,\n    test_acc=0.9,\n)\n",
        '{\n  "lr": 0.001,\n  "val_loss_weight": 0.5,\n  "test_acc": 0.9\n}\n',
        "| val_loss_weight | 0.5   |\n| test_acc        | 0.9   |\n| lr              | 0.001 |\n",
        "args.val_loss_weight = 0.5\nargs.seed = 1\nargs.test_acc = 0.9\n",
    ],
)
def test_printed_settings_are_no_evaluations(printed: str, read: Read) -> None:
    for text in (printed + RECORDS, RECORDS + printed):
        log = read(text)
        assert log.records.height == 9
        assert log.evals["name"].to_list() == ["val_loss"] * 3


@pytest.mark.parametrize(
    "printed",
    ["val_loss: 0.512\nval_acc: 0.91\nval_f1: 0.88\n", "test_acc: 0.91\nnum_samples: 1000\ntest_f1: 0.88\n"],
)
def test_block_of_results_without_a_hyperparameter_is_an_evaluation(printed: str, read: Read) -> None:
    assert len(set(read(RECORDS + printed).evals["name"])) > 1


def test_settings_within_a_line_of_results_name_no_value(read: Read) -> None:
    line = '{{"trial": {0}, "validation_loss": {1:.3f}, "config": {{"learning_rate": {2}, "depth": {0}}}}}\n'
    log = read("".join(line.format(at, 1 - at / 50, at / 1000) for at in range(1, 12)))
    assert log.records.height == 0
    assert log.evals.filter(name="val_loss").height == 11
    assert not {"lr", "depth", "learning_rate"} & {*log.evals["name"]}


def test_values_behind_the_settings_of_a_line_count_again() -> None:
    literals = (b'{"loss": ', b', "config": {"lr": ', b', "nested": {"a": ', b'}}, "acc": ', b"}")
    assert setting_lines.within(literals) == {1, 2}


def test_line_of_figures_in_a_dict_is_no_configuration() -> None:
    assert not setting_lines.is_printed(
        b"{'loss': 0.5, 'grad_norm': 1.2, 'learning_rate': 1e-05, 'epoch': 0.1}"
    )
    assert setting_lines.is_printed(DICT.encode())


def test_dict_with_many_words_is_a_configuration_and_one_with_a_word_is_not() -> None:
    assert setting_lines.is_wordy(
        b"{'dir': './out', 'gpu': False, 'amp': True, 'weights': None, 'model': 'gcn'}"
    )
    assert not setting_lines.is_wordy(b"{'mode': 'train', 'loss': 0.5, 'lr': 0.001}")


OPTIONS = "--- Options ---\nL: 15\nbatchSize: 256\nlearning_rate: 0.001\nvalidation_freq: 50\n--- End ---\n"


def test_settings_that_each_of_many_runs_prints_are_none_of_its_figures(read: Read) -> None:
    """A log to which a program is appended each time that it is started, and often fails."""
    log = read(OPTIONS * 30 + RECORDS)
    assert log.records.height == 9
    assert set(log.evals["name"]) == {"val_loss"}


def test_results_below_the_settings_of_each_trial_are_read(read: Read) -> None:
    trials = "".join(f"Parameters:\n\nepoch {n} loss {3 - n / 10:.2f}\n" for n in range(1, 21))
    assert read(trials).records["step"].to_list() == [*range(1, 21)]


RUN = "run={run}/9 lags={run}8 batch_size=256 learning_rate=1e-5 epochs=500 steps=500 eval_every=9{more}\n"


@pytest.mark.parametrize(("more", "records"), [("", 0), (" loss=0.{run}5", 9), (" grad_norm=0.{run}5", 9)])
def test_line_with_several_hyperparameters_is_a_record_if_it_measures(
    more: str, records: int, read: Read
) -> None:
    log = read("".join(RUN.format(run=run, more=more.format(run=run)) for run in range(1, 10)))
    assert (log.records.height, log.evals.height) == (records, 0)
