"""`.wandb` files, composed from the public grammar; a file of the tool itself was compared by hand."""

import json
import math
import struct
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputel.analysis import stores
from gputel.analysis.catalogue import facts
from gputel.analysis.document import FactList
from gputel.analysis.documents.report import report_document
from gputel.analysis.logs.log import Log, Provenance
from gputel.analysis.report.run_report import make_report
from gputel.analysis.runs import read_run
from gputel.analysis.stores import wandb
from gputel.analysis.stores.assemble import make_log
from gputel.analysis.stores.wandb_log import RecordReader
from tests.analysis.stores.compose_events import packed, varint
from tests.analysis.stores.compose_wandb import (
    ending,
    framed,
    history,
    item,
    machine,
    metric,
    output,
    run,
    stats,
    summary,
)


def read(folder: Path, data: bytes) -> Log:
    path = folder / "run-abc.wandb"
    path.write_bytes(data)
    return stores.read(path)


def rows(count: int, **cells: object) -> list[bytes]:
    return [history({"train/loss": 8 / (n + 1), **cells}, n) for n in range(count)]


def test_history_settings_name_and_exit_code_are_read(tmp_path: Path) -> None:
    log = read(tmp_path, framed([run("planned", {"lr": 0.1, "opt": {"name": "muon"}}), *rows(5), ending(0)]))
    assert (log.name, log.status) == ("planned", "completed")
    assert log.config == {"lr": 0.1, "opt.name": "muon"}
    assert log.records["loss"].to_list() == [8 / (n + 1) for n in range(5)]


def test_summaries_are_passed_over(tmp_path: Path) -> None:
    records = [each for row in rows(5) for each in (row, summary({"train/loss": 99}), summary({}))]
    assert read(tmp_path, framed(records)).records["loss"].max() == 8.0


def test_summary_has_what_was_set_and_what_the_history_lacks(tmp_path: Path) -> None:
    """A program sets a value in a record of its own; older versions end with one record of everything."""
    own = [summary({"best_acc": 0.75}), summary({"nested": {"a": 1.5}, "hist": {"_type": "histogram"}})]
    last = summary({"train/loss": 99, "_step": 3, "note": "x", "best_acc": 0.8})
    repeats = [each for row in rows(5) for each in (row, summary({"train/loss": 99, "unseen": 1}))]
    log = read(tmp_path, framed([*repeats[:4], *own, *repeats[4:], last]))
    assert log.summary == {"best_acc": 0.8, "nested.a": 1.5, "note": "x"}


def test_values_of_the_typed_schema_are_read(tmp_path: Path) -> None:
    typed = [
        packed(1, packed(1, b"loss") + b"\x31" + struct.pack("<d", 2.5)),
        packed(1, packed(1, b"tokens") + b"\x28" + varint(7)),
        packed(1, packed(1, b"note") + packed(7, b"words")),
    ]
    log = read(tmp_path, framed([packed(2, b"".join(typed) + packed(2, b"\x08\x03"))]))
    assert log.records.select("step", "loss", "tokens").rows() == [(3, 2.5, 7.0)]


def test_dictionary_that_an_older_version_kept_whole_has_a_value_for_each(tmp_path: Path) -> None:
    cells = {
        "train": {"loss": 2.5, "opt": {"lr": 0.1}},
        "hist": {"_type": "histogram", "bins": [1]},
        "ids": [1],
    }
    log = read(tmp_path, framed([history(cells, 0)]))
    assert log.records.select("loss", "lr").rows() == [(2.5, 0.1)]
    assert log.notes == ("1 histogram skipped", "1 lists skipped")


def test_nan_and_infinities_come_bare_and_quoted(tmp_path: Path) -> None:
    data = framed(
        [history({"loss": math.nan, "lr": "Infinity"}, 0), history({"loss": "NaN", "lr": -math.inf}, 1)]
    )
    log = read(tmp_path, data)
    assert all(math.isnan(value) for value in log.records["loss"])
    assert log.records["lr"].to_list() == [math.inf, -math.inf]


def test_step_is_the_metric_that_define_metric_names(tmp_path: Path) -> None:
    calls = [history({"train/loss": n, "tokens_step": 100 * n}, n) for n in range(1, 4)]
    log = read(tmp_path, framed([metric("train/*", "tokens_step", is_pattern=True), *calls]))
    assert log.records["step"].to_list() == [100, 200, 300]


@pytest.mark.parametrize("axis", ["trainer/global_step", "train/global_step", "global_step", "iter", "step"])
def test_step_is_a_metric_that_is_called_like_one(tmp_path: Path, axis: str) -> None:
    """Evaluations are calls of their own, which shift W&B's own count."""
    calls = [history({"train/loss": 1.0, axis: 10}, 0), history({"val/loss": 2.0, axis: 10}, 1)]
    log = read(tmp_path, framed([*calls, history({"train/loss": 0.5, axis: 20}, 2)]))
    assert log.records["step"].to_list() == [10, 20]
    assert log.evals.select("step", "name").rows() == [(10, "val_loss")]


def test_row_without_its_step_is_no_record_and_is_counted(tmp_path: Path) -> None:
    log = read(tmp_path, framed([*rows(2, global_step=5), history({"loss2": 1.0}, 9)]))
    assert log.records.height == 1
    assert "1 values without global_step skipped" in log.notes


def test_last_value_of_a_step_that_was_logged_twice_counts(tmp_path: Path) -> None:
    """nanoGPT logs an averaged loss at evaluations, and then the step's own."""
    twice = [history({"train/loss": 3.0, "iter": 5}, 0), history({"train/loss": 2.0, "iter": 5}, 1)]
    assert read(tmp_path, framed(twice)).records["loss"].to_list() == [2.0]


def test_file_without_an_exit_record_says_where_it_ends(tmp_path: Path) -> None:
    log = read(tmp_path, framed(rows(2000))[:-11])
    assert log.status == "unknown"
    assert log.cause
    assert log.cause.text == "the file ends at step 1,998"


def test_exit_code_of_a_failure_is_the_cause(tmp_path: Path) -> None:
    log = read(tmp_path, framed([*rows(2), ending(1)]))
    assert (log.status, log.cause and log.cause.text) == ("failed", "W&B noted exit code 1")


PRINTED = [f"step {n} | loss {9 - n}.5\n" for n in range(4)]


@pytest.mark.parametrize("raw", [False, True])
def test_console_output_gives_the_rows_of_a_run_without_history(tmp_path: Path, raw: bool) -> None:
    lines = [output(line, raw=raw) for line in PRINTED]
    log = read(tmp_path, framed([run("d16", {"lr": 0.1}), *lines, ending(1)]))
    assert (log.name, log.config["lr"], log.status) == ("d16", 0.1, "failed")
    assert log.records["loss"].to_list() == [9.5, 8.5, 7.5, 6.5]
    assert any("console output" in note for note in log.notes)


def test_console_output_beside_the_file_is_taken_where_the_file_has_none(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "output.log").write_text("".join(PRINTED))
    assert read(tmp_path, framed([run("d16", {})])).records.height == 4
    (tmp_path / "files" / "output.log").unlink()
    (tmp_path / "files" / "output.log").symlink_to("/etc/hostname")
    assert read(tmp_path, framed([run("d16", {})])).records.height == 0


def test_history_counts_before_the_console_output(tmp_path: Path) -> None:
    log = read(tmp_path, framed([*map(output, PRINTED), *rows(2)]))
    assert log.records["loss"].to_list() == [8, 4]


COMMAND = ("/repo/train.py", "--lr", "3e-4", "--api-key", "hunter2secret")


def test_host_command_and_commit_are_those_of_the_run(tmp_path: Path) -> None:
    log = read(tmp_path, framed([machine("NVIDIA H100 80GB HBM3", "node7", "abc123", COMMAND), *rows(3)]))
    masked = ("/repo/train.py", "--lr", "3e-4", "--api-key", "***")
    assert log.provenance == Provenance("node7", masked, "abc123", "NVIDIA H100 80GB HBM3")
    row = facts.computed(tmp_path / "run-abc.wandb")
    assert row
    known = ("host", "gpu", "commit", "command")
    assert [row.facts[name] for name in known] == ["node7", "H100", "abc123", " ".join(masked)]


@pytest.mark.parametrize("said", [machine("", "node7"), None])
def test_metadata_of_an_older_version_count_where_the_file_says_nothing(
    tmp_path: Path, said: bytes | None
) -> None:
    (tmp_path / "files").mkdir()
    metadata = {
        "host": "old",
        "program": "a.py",
        "args": ["--x", 1],
        "git": {"commit": "def"},
        "gpu": "Tesla T4",
    }
    (tmp_path / "files" / "wandb-metadata.json").write_text(json.dumps(metadata))
    found = read(tmp_path, framed([*([said] if said else []), *rows(3)])).provenance
    old = Provenance("old", ("a.py", "--x"), "def", "Tesla T4")
    assert found == (Provenance("node7") if said else old)


@pytest.mark.parametrize("said", ["[]", "{", '{"host": 1, "args": 2, "git": 3}'])
def test_metadata_that_are_none_say_nothing(tmp_path: Path, said: str) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "wandb-metadata.json").write_text(said)
    assert read(tmp_path, framed(rows(3))).provenance == Provenance()


def system(seconds: float, **cells: object) -> bytes:
    """System metrics of two GPUs, the second of which draws 100 W more."""
    powers = {f"gpu.{gpu}.powerWatts": 500.0 + 100 * gpu for gpu in range(2)}
    return stats(1.7e9 + seconds, {**powers, "cpu": 3.5, "gpu.0.memoryAllocatedBytes": 2**30, **cells})


def test_system_metrics_are_readings_of_the_gpus(tmp_path: Path) -> None:
    records = [machine("NVIDIA H100 80GB HBM3"), *rows(3), system(15), system(0, **{"gpu.1.temp": "NaN"})]
    log = read(tmp_path, framed(records))
    table = log.telemetry
    assert table
    assert log.notes == ("2 values of other system metrics (processor, memory, disks, networks) skipped",)
    assert table.names == ("NVIDIA H100 80GB HBM3",)
    assert table.rows["time"].dt.epoch("s").to_list() == [1_700_000_000] * 2 + [1_700_000_015] * 2
    assert (
        table.rows.select("gpu", "power_w", "mem_used_mib").rows()
        == [
            ("0", 500.0, 1024.0),
            ("1", 600.0, None),
        ]
        * 2
    )


@pytest.mark.parametrize("apart", [1, 30])
def test_power_of_a_past_run_is_reported_and_for_no_step_that_is_shorter_than_its_readings_are_apart(
    tmp_path: Path, apart: int
) -> None:
    calls = [
        (seconds, history({"train/loss": 1.0, "_timestamp": 1.7e9 + seconds}, seconds))
        for seconds in range(0, 301, apart)
    ]
    readings = [(seconds, system(seconds)) for seconds in range(0, 301, 15)]
    ordered = [record for _, record in sorted([*calls, *readings], key=lambda pair: pair[0])]
    path = tmp_path / "run-abc.wandb"
    path.write_bytes(framed([run("d16", {}), *ordered, ending(0)]))
    report = make_report(read_run(path))
    assert report.gpus["power_mean_w"].to_list() == pytest.approx([500, 600])
    assert report.totals["energy_j"].sum() == pytest.approx(300 * 1100, rel=0.01)
    assert report.steps["energy_j"].drop_nulls().is_empty() == (apart < 15)
    lists = [item for item in report_document(report).sections[0].items if isinstance(item, FactList)]
    assert {"of each GPU every 15 s"} == {
        known["readings"] for each in lists if "readings" in (known := each.known())
    }
    row = facts.computed(path)
    assert row
    assert (row.facts["energy_j"], row.facts["power_max_w"]) == (pytest.approx(300 * 1100), 600)
    assert (row.facts["gpus"], row.facts["mem_max_mib"], row.facts["cost"]) == (2, 1024, None)


@pytest.mark.parametrize("cells", [{}, {"gpu.0.powerWatts": "much"}, {"gpu.0.unheard": 1}, {"cpu": 1.0}])
def test_system_metrics_without_a_reading_of_a_gpu_are_none(tmp_path: Path, cells: dict[str, object]) -> None:
    assert read(tmp_path, framed([*rows(2), stats(1.7e9, cells)])).telemetry is None


def test_damaged_record_costs_itself(tmp_path: Path) -> None:
    data = bytearray(framed(rows(3000)))
    data[40_000] ^= 1
    log = read(tmp_path, bytes(data))
    assert log.records.height == 2999
    assert len(log.rejects) == 1


def test_damaged_length_costs_no_more_than_the_block(tmp_path: Path) -> None:
    start = len(framed(rows(100)))
    data = bytearray(framed(rows(3000)))
    data[start + 5] ^= 0x7F
    log = read(tmp_path, bytes(data))
    block = (1 << 15) // (len(framed(rows(101))) - start)
    assert 3000 - block - 2 <= log.records.height < 3000


def test_damage_in_the_last_block_keeps_what_lies_behind_it(tmp_path: Path) -> None:
    data = bytearray(framed(rows(20)))
    data[400] ^= 1
    assert read(tmp_path, bytes(data)).records.height == 19


def test_folder_of_wandb_is_one_run(tmp_path: Path) -> None:
    from gputel.analysis.runs import paths

    folder = tmp_path / "wandb" / "offline-run-20260101_000000-abc"
    (folder / "files").mkdir(parents=True)
    (folder / "files" / "output.log").write_text("step 1 loss 2.0\n")
    (folder / "run-abc.wandb").write_bytes(framed(rows(3)))
    (folder.parent / "latest-run").symlink_to(folder.name)
    for name in ("debug.log", "debug-cli.root.log"):
        (folder.parent / name).write_text("2026-01-01 00:00:00,000 ERROR MainThread:1 failed\n")
    assert [path.name for path in paths.walk(tmp_path)] == ["run-abc.wandb"]


RECORDS = [run("a", {"x": 1}), *rows(400), packed(2, item("big", "y" * 70_000)), *rows(3), ending(0)]
DATA = framed(RECORDS)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, len(DATA)), max_size=5))
def test_any_cut_and_going_on_gives_the_records_of_the_whole(cuts: list[int]) -> None:
    reader, records = RecordReader(), []
    edges = [0, *sorted(cuts), len(DATA)]
    for start, end in pairwise(edges):
        records += list(reader.feed(DATA[start:end]))
    assert records == RECORDS
    assert reader.rejects == []


def test_growing_file_gives_the_rows_of_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "run-a.wandb"
    path.write_bytes(DATA[:333])
    reader = wandb.FileReader(path)
    for end in (5_000, 40_000, len(DATA)):
        reader.advance()
        path.write_bytes(DATA[:end])
    assert reader.advance()
    assert not reader.advance()
    assert make_log(reader.run()).records.equals(stores.read(path).records)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.integers(7, 20_000))
def test_random_bytes_anywhere_raise_nothing(noise: bytes, at: int) -> None:
    reader = RecordReader()
    read_rows = wandb._Read()
    for record in [*reader.feed(DATA[:at] + noise + DATA[at:]), *reader.finish()]:
        wandb._take(record, read_rows, reader)
    assert len(read_rows.rows) <= len(RECORDS) + len(noise)
