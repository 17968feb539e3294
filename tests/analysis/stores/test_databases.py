import json
import math
import shutil
import sqlite3
import sys
from pathlib import Path

import polars as pl
import pytest

from gputel.analysis import stores
from gputel.analysis.runs import paths
from gputel.analysis.stores import databases
from gputel.telemetry.errors import GputelError


def mlflow(path: Path, names: tuple[str, ...] = ("first", "second")) -> Path:
    base = sqlite3.connect(path)
    base.executescript(
        "CREATE TABLE runs (run_uuid TEXT, name TEXT, status TEXT, start_time INT, end_time INT, "
        "lifecycle_stage TEXT);"
        "CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT);"
        "CREATE TABLE tags (key TEXT, value TEXT, run_uuid TEXT);"
        "CREATE TABLE metrics (key TEXT, value REAL, timestamp INT, run_uuid TEXT, step INT, is_nan INT);"
    )
    for number, name in enumerate((*names, "gone")):
        stage = "deleted" if name == "gone" else "active"
        row = (
            f"id{number}",
            name,
            "FINISHED" if number else "FAILED",
            1_700_000_000_000,
            1_700_000_100_000,
            stage,
        )
        base.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?)", row)
        base.execute("INSERT INTO params VALUES ('lr', '1e-3', ?)", (f"id{number}",))
        for step in range(5):
            cells = (
                "train_loss",
                0 if step == 2 else 5.0 - step,
                1_700_000_000_000 + step,
                f"id{number}",
                step,
                step == 2,
            )
            base.execute("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", cells)
    base.commit()
    base.close()
    return path


def with_system_metrics(path: Path) -> Path:
    """Adds what MLflow samples of the machine every second, by a count of its own."""
    base = sqlite3.connect(path)
    for at in range(3):
        readings = {
            "gpu_0_power_usage_watts": 300.0 + at,
            "gpu_1_utilization_percentage": 90.0,
            "gpu_1_memory_usage_megabytes": 2**20 / 1e3,
            "gpu_1_power_usage_percentage": 43.0,
            "cpu_utilization_percentage": 12.5,
            "system_memory_usage_megabytes": 5.0,
        }
        for name, value in readings.items():
            cells = (f"system/{name}", value, 1_700_000_000_000 + 1000 * at, "id0", at, 0)
            base.execute("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", cells)
    base.execute("INSERT INTO metrics VALUES ('system/temperature', 0.7, 0, 'id0', 2, 0)")
    base.commit()
    base.close()
    return path


def trackio(path: Path, *, with_ids: bool) -> Path:
    base = sqlite3.connect(path)
    key = "run_id TEXT," if with_ids else ""
    base.executescript(
        f"CREATE TABLE metrics (id INTEGER PRIMARY KEY, {key} timestamp TEXT, run_name TEXT, step INT, "
        "metrics TEXT);"
        f"CREATE TABLE configs (id INTEGER PRIMARY KEY, {key} run_name TEXT, config TEXT);"
    )
    names = "run_id, timestamp, run_name, step, metrics" if with_ids else "timestamp, run_name, step, metrics"
    for step in range(4):
        cells: dict[str, object] = {"train/loss": 4.0 - step} | ({"eval/loss": "NaN"} if step == 3 else {})
        text = json.dumps(cells)
        row = [*(["x"] if with_ids else []), "2026-01-01T00:00:00+00:00", "run-a", step, text]
        base.execute(f"INSERT INTO metrics ({names}) VALUES ({','.join('?' * len(row))})", row)
    names = "run_id, run_name, config" if with_ids else "run_name, config"
    row = [*(["x"] if with_ids else []), "run-a", '{"lr": 0.1, "_Created": "now"}']
    base.execute(f"INSERT INTO configs ({names}) VALUES ({','.join('?' * len(row))})", row)
    base.commit()
    base.close()
    return path


def test_infinity_that_mlflow_keeps_as_the_largest_float_is_infinity(tmp_path: Path) -> None:
    with sqlite3.connect(mlflow(tmp_path / "mlflow.db", ("only",))) as base:
        base.execute("UPDATE metrics SET value = ? WHERE step = 3", (sys.float_info.max,))
        base.execute("UPDATE metrics SET value = ? WHERE step = 4", (-sys.float_info.max,))
    base.close()
    assert stores.read(tmp_path / "mlflow.db").records["loss"].to_list()[3:] == [math.inf, -math.inf]


def test_each_run_of_a_database_has_an_address_and_deleted_ones_have_none(tmp_path: Path) -> None:
    path = mlflow(tmp_path / "mlflow.db")
    assert [found.name for found in paths.walk(tmp_path)] == ["mlflow.db#first", "mlflow.db#second"]
    log = stores.read(Path(f"{path}#second"))
    assert (log.name, log.source, log.status, log.config) == (
        "second",
        f"{path}#second",
        "completed",
        {"lr": 0.001},
    )


def test_names_with_a_slash_are_addresses_too(tmp_path: Path) -> None:
    mlflow(tmp_path / "mlflow.db", ("org/model", "a#b"))
    found = list(paths.walk(tmp_path))
    assert [path.name for path in found] == ["mlflow.db#a_b", "mlflow.db#org_model"]
    assert [stores.read(path).name for path in found] == ["a_b", "org_model"]


def test_runs_of_one_name_have_a_short_id_in_their_addresses(tmp_path: Path) -> None:
    path = mlflow(tmp_path / "mlflow.db", ("baseline", "tuned"))
    keys = ("0a1b2c3d4e5f60718293a4b5c6d7e8f9", "1a1b2c3d4e5f60718293a4b5c6d7e8f9")
    with sqlite3.connect(path) as base:
        for name, key in zip(("baseline", "tuned"), keys, strict=True):
            (old,) = base.execute("SELECT run_uuid FROM runs WHERE name = ?", (name,)).fetchone()
            for table in ("runs", "metrics", "params", "tags"):
                base.execute(f"UPDATE {table} SET run_uuid = ? WHERE run_uuid = ?", (key, old))
        base.execute("UPDATE runs SET name = 'same'")
        base.execute("UPDATE tags SET value = 'same' WHERE key = 'mlflow.runName'")
    base.close()
    found = list(paths.walk(tmp_path))
    assert [run.name for run in found] == ["mlflow.db#same-0a1b2c3d", "mlflow.db#same-1a1b2c3d"]
    assert [stores.read(run).name for run in found] == ["same-0a1b2c3d", "same-1a1b2c3d"]
    assert stores.read(Path(f"{path}#{keys[0]}")).name == "same-0a1b2c3d"
    with pytest.raises(GputelError, match=r"name one of them: .*#RUN of same-0a1b2c3d, same-1a1b2c3d"):
        stores.read(Path(f"{path}#same"))


def test_nan_of_mlflow_is_kept_as_zero_with_a_mark(tmp_path: Path) -> None:
    log = stores.read(Path(f"{mlflow(tmp_path / 'mlflow.db')}#first"))
    assert [str(value) for value in log.records["loss"]] == ["5.0", "4.0", "nan", "2.0", "1.0"]
    assert (log.status, log.cause and log.cause.text) == ("failed", "MLflow says FAILED")


def test_system_metrics_of_mlflow_are_readings_at_their_times_and_not_values_of_steps(tmp_path: Path) -> None:
    """What a program itself logs below system/ stays a metric."""
    log = stores.read(with_system_metrics(mlflow(tmp_path / "mlflow.db", ("only",))))
    assert log.metrics() == ["loss", "system_temperature"]
    assert log.notes == ("9 values of other system metrics (processor, memory, disks, networks) skipped",)
    assert log.telemetry
    rows = log.telemetry.rows.with_columns(pl.col("time").dt.epoch("s") - 1_700_000_000)
    assert rows.columns == ["time", "gpu", "power_w", "util", "mem_used_mib"]
    assert rows.rows() == [
        row for at in range(3) for row in ((at, "0", 300.0 + at, None, None), (at, "1", None, 90.0, 1000.0))
    ]


@pytest.mark.parametrize("with_ids", [True, False])
def test_system_metrics_of_trackio_are_readings_of_its_run(tmp_path: Path, with_ids: bool) -> None:
    path = trackio(tmp_path / "project.db", with_ids=with_ids)
    base = sqlite3.connect(path)
    key = "run_id TEXT," if with_ids else ""
    base.execute(f"CREATE TABLE system_metrics ({key} timestamp TEXT, run_name TEXT, metrics TEXT)")
    for run, power in (("run-a", 300.0), ("run-b", 1.0)):
        cells = {
            "gpu/0/power": power,
            "gpu/0/energy_consumed": 7.0,
            "gpu/0/pstate": 2,
            "gpu/total_power": power,
        }
        row = [*([run[-1]] if with_ids else []), "2026-01-01T00:00:10+00:00", run, json.dumps(cells)]
        base.execute(f"INSERT INTO system_metrics VALUES ({','.join('?' * len(row))})", row)
    base.execute("UPDATE system_metrics SET run_id = 'x' WHERE run_id = 'a'") if with_ids else None
    base.commit()
    base.close()
    log = stores.read(path)
    assert log.telemetry
    assert log.telemetry.rows.select("gpu", "power_w", "energy_j").rows() == [("0", 300.0, 7.0)]
    assert log.telemetry.rows["time"].dt.epoch("s").to_list() == [1_767_225_610]
    assert log.notes == ("2 values of other system metrics (processor, memory, disks, networks) skipped",)


def test_database_of_several_runs_asks_for_one(tmp_path: Path) -> None:
    with pytest.raises(GputelError, match="holds 2 runs"):
        stores.read(mlflow(tmp_path / "mlflow.db"))


@pytest.mark.parametrize("with_ids", [True, False])
def test_trackio_has_a_document_a_row(tmp_path: Path, with_ids: bool) -> None:
    log = stores.read(trackio(tmp_path / "project.db", with_ids=with_ids))
    assert (log.name, log.config) == ("run-a", {"lr": 0.1})
    assert log.records["loss"].to_list() == [4.0, 3.0, 2.0, 1.0]
    assert log.evals["name"].to_list() == ["val_loss"]


def test_write_ahead_log_that_cannot_be_opened_is_read_from_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a read-only disk, where SQLite cannot make its shared memory."""
    path = mlflow(tmp_path / "mlflow.db", ("only",))
    connect = databases._connect

    def refuse(place: Path) -> sqlite3.Connection:
        if place == path:
            raise sqlite3.OperationalError("unable to open database file")
        return connect(place)

    monkeypatch.setattr(databases, "_connect", refuse)
    assert stores.read(path).records.height == 5


def test_database_is_not_written_to(tmp_path: Path) -> None:
    path = mlflow(tmp_path / "mlflow.db", ("only",))
    with databases.opened(path) as base, pytest.raises(sqlite3.OperationalError, match="readonly"):
        base.execute("DELETE FROM metrics")


def test_damage_that_sqlite_quotes_in_no_encoding_is_a_fault(tmp_path: Path) -> None:
    path = mlflow(tmp_path / "a.db")
    path.write_bytes(path.read_bytes().replace(b"TABLE params", b"TABL\xe9 params"))
    assert databases.tool(path) is None
    with pytest.raises(OSError, match="its schema is damaged"):
        databases.read(path, None)


def test_other_databases_are_no_stores(tmp_path: Path) -> None:
    base = sqlite3.connect(tmp_path / "other.db")
    base.execute("CREATE TABLE metrics (a)")
    base.commit()
    base.close()
    assert stores.kind(tmp_path / "other.db") is None
    shutil.copyfile(tmp_path / "other.db", tmp_path / "cut.db")
    with (tmp_path / "cut.db").open("r+b") as file:
        file.truncate(1000)
    assert stores.kind(tmp_path / "cut.db") is None
