"""Folders of small files: DVCLive, and MLflow's mlruns."""

from pathlib import Path

from gputel.analysis import stores
from gputel.analysis.runs import paths
from gputel.analysis.stores.plain_yaml import plain_settings


def test_folder_of_dvclive_is_one_run(tmp_path: Path) -> None:
    folder = tmp_path / "dvclive"
    (folder / "plots" / "metrics" / "eval").mkdir(parents=True)
    (folder / "plots" / "metrics" / "loss.tsv").write_text("step\tloss\n0\t2.5\n1\t2.25\n")
    (folder / "plots" / "metrics" / "eval" / "loss.tsv").write_text(
        "timestamp\tstep\tloss\n1700000000000\t1\t3.5\n"
    )
    (folder / "params.yaml").write_text("lr: 0.1\nmodel:\n  depth: 4\n")
    (folder / "metrics.json").write_text('{"loss": 2.25}')
    (found,) = paths.walk(tmp_path)
    log = stores.read(found)
    assert found == folder
    assert log.records["loss"].to_list() == [2.5, 2.25]
    assert log.evals.select("step", "name", "value").rows() == [(1, "val_loss", 3.5)]
    assert log.config == {"lr": 0.1, "model.depth": 4.0}


def test_each_run_of_mlruns_is_a_folder_and_deleted_ones_are_left_out(tmp_path: Path) -> None:
    for name, stage in (("a", "active"), ("b", "deleted")):
        folder = tmp_path / "mlruns" / "0" / name
        (folder / "metrics" / "val").mkdir(parents=True)
        (folder / "params").mkdir()
        (folder / "meta.yaml").write_text(
            f"run_id: {name}\nrun_name: run {name}\nlifecycle_stage: {stage}\nstatus: 3\n"
        )
        (folder / "metrics" / "loss").write_text("1700000000000 2.5 0\n1700000001000 nan 1\n")
        (folder / "metrics" / "val" / "loss").write_text("1700000001000 3.5 1\n")
        (folder / "params" / "lr").write_text("1e-3")
    (tmp_path / "mlruns" / "0" / "meta.yaml").write_text("experiment_id: 0\n")
    (found,) = paths.walk(tmp_path)
    log = stores.read(found)
    assert (log.name, log.status, log.config) == ("run a", "completed", {"lr": 0.001})
    assert [str(value) for value in log.records["loss"]] == ["2.5", "nan"]
    assert log.evals["name"].to_list() == ["val_loss"]


def test_plain_yaml_reads_names_and_values_and_passes_over_the_rest() -> None:
    text = "a: 1e-3\n# note\nb:\n  c: 'x'\n  d: [1, 2]\n  e:\n    f: true\nlist:\n- 1\ng: &anchor 2\n"
    assert plain_settings(text) == {"a": 0.001, "b.c": "x", "b.e.f": "true"}
