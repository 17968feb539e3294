import json
from pathlib import Path
from typing import Any

from gputel.analysis import stores
from gputel.analysis.runs import paths

ENTRIES: list[dict[str, Any]] = [
    {"step": 5, "loss": 4.5, "learning_rate": 0.1, "grad_norm": "NaN", "epoch": 0.5},
    {"step": 5, "eval_loss": 3.5, "eval_runtime": 1.0},
    {"step": 10, "loss": 2.5, "learning_rate": 0.2},
]
SUMMARY = {"step": 10, "train_loss": 3.5, "train_runtime": 9.0, "total_flos": 0.0}


def write(path: Path, entries: list[dict[str, Any]], reached: int = 10, total: int = 10) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({"global_step": reached, "log_history": entries, "max_steps": total}, indent=2)
    )
    return path


def test_entries_are_records_and_evaluations_and_the_last_is_the_summary(tmp_path: Path) -> None:
    log = stores.read(write(tmp_path / "trainer_state.json", [*ENTRIES, SUMMARY]))
    assert log.records.select("step", "loss", "lr").rows() == [(5, 4.5, 0.1), (10, 2.5, 0.2)]
    assert ("val_loss", 3.5) in log.evals.select("name", "value").rows()
    assert log.summary == {"train_loss": 3.5, "train_runtime": 9.0, "total_flos": 0.0}
    assert (log.status, log.config["total_steps"]) == ("completed", 10.0)


def test_run_that_was_cut_off_says_so(tmp_path: Path) -> None:
    log = stores.read(write(tmp_path / "trainer_state.json", ENTRIES, 10, 50))
    assert (log.status, log.cause and log.cause.text) == ("unknown", "log ends at step 10 of 50")


def test_states_of_checkpoints_repeat_the_run_and_are_read_once(tmp_path: Path) -> None:
    write(tmp_path / "checkpoint-5" / "trainer_state.json", ENTRIES[:1])
    write(tmp_path / "checkpoint-10" / "trainer_state.json", ENTRIES)
    assert [path.parent.name for path in paths.walk(tmp_path)] == ["checkpoint-10"]
    top = write(tmp_path / "trainer_state.json", ENTRIES)
    assert list(paths.walk(tmp_path)) == [top]


def test_state_that_is_half_written_is_a_fault_and_no_crash(tmp_path: Path) -> None:
    path = write(tmp_path / "trainer_state.json", [*ENTRIES, SUMMARY])
    path.write_bytes(path.read_bytes()[:-40])
    log = stores.read(path)
    assert log.records.is_empty()
    assert log.fault
