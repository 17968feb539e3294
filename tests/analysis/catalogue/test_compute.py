"""Rows of many runs: the same from this process, from several, and from a Ray cluster."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputel.analysis import spread
from gputel.analysis.catalogue.compute import compute, compute_where_it_pays, killed
from gputel.analysis.catalogue.facts import CatalogueRow
from gputel.analysis.spread_on_ray import spread_on_ray
from gputel.telemetry.errors import GputelError
from tests.analysis.test_spread import FATAL, negative, square
from tests.conftest import ROOT


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """Recordings without facts.json, a log, a text that is no run, and a path with nothing."""
    for number in range(4):
        shutil.copytree(ROOT / "sample_runs" / "h100-depth12", tmp_path / f"run{number}")
        (tmp_path / f"run{number}" / "facts.json").unlink(missing_ok=True)
    (tmp_path / "log.txt").write_text("step 1 | loss: 2.0\nstep 2 | loss: 1.9\n")
    (tmp_path / "notes.txt").write_text("buy milk\n")
    return [*sorted(tmp_path.iterdir()), tmp_path / "nothing"]


def test_path_has_a_row_or_says_why_not(paths: list[Path]) -> None:
    log, notes, *runs, nothing = compute(paths)
    assert isinstance(log, CatalogueRow)
    assert log.facts["loss"] == 1.9
    assert notes is None
    assert [isinstance(run, CatalogueRow) and run.facts["kept_by"] for run in runs] == ["recording"] * 4
    assert isinstance(nothing, str)


@pytest.mark.long
def test_several_processes_compute_what_one_does(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    here = list(compute(paths))
    assert list(spread.spread(compute, paths, 2, lambda _: 1, killed)) == here
    monkeypatch.setattr(spread, "LOOK_S", 0)
    monkeypatch.setattr(spread, "START_S", 1e-9)
    assert list(compute_where_it_pays(paths)) == here


@pytest.fixture(scope="module")
def ray_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAY_AUTH_MODE", "disabled")  # its token lies in a home folder, which tests change
        yield from _ray_cluster()


def _ray_cluster() -> Iterator[str]:
    head = [
        sys.executable,
        "-m",
        "ray.scripts.scripts",
        "start",
        "--head",
        "--block",
        "--port=0",
        "--num-cpus=2",
    ]
    more = ["--include-dashboard=false", "--object-store-memory=104857600", "--disable-usage-stats"]
    with subprocess.Popen([*head, *more], stdout=subprocess.PIPE, text=True) as cluster:
        assert cluster.stdout
        addresses = (line.partition("--address='")[2].partition("'")[0] for line in cluster.stdout)
        yield next(filter(None, addresses))
        cluster.terminate()


@pytest.mark.long
def test_ray_computes_what_one_process_does(paths: list[Path], ray_address: str) -> None:
    debugger = os.environ.get("PYTHONBREAKPOINT")
    assert list(spread_on_ray(compute, paths, killed, ray_address)) == list(compute(paths))
    assert os.environ.get("PYTHONBREAKPOINT") == debugger  # Ray names one of its own


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_item_that_kills_rays_workers_is_the_only_one_that_is_lost(ray_address: str) -> None:
    results = list(spread_on_ray(square, range(10, 16), negative, ray_address))
    assert results == [100, 121, 144, -FATAL, 196, 225]


@pytest.mark.long
def test_cluster_that_does_not_answer_is_named_in_one_line() -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    with pytest.raises(GputelError, match=r"--address 127\.0\.0\.1:9: no cluster answers") as error:
        list(spread_on_ray(square, [1], negative, "127.0.0.1:9"))
    assert "\n" not in str(error.value)
