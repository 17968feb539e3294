"""What Prometheus sees of runs: by its own parser, and by the real program."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gputel.analysis.live.prometheus import Exporter, listening
from gputel.analysis.live.series import Points
from gputel.analysis.live.state import RunState
from gputel.analysis.live.view import GpuView, RunCost, View
from gputel.telemetry.errors import GputelError
from tests.ports import free_port
from tests.recordings import PATIENCE_S, until

ROOT = Path(__file__).parents[3]


def gpu(**last: float) -> GpuView:
    now = datetime.now(timezone.utc)
    limits = {"memory_total_mib": 81559.0}
    return GpuView("0", "", "node7", "GPU-abc", "NVIDIA H100 80GB HBM3", now, last, {}, limits)


@pytest.fixture
def view() -> View:
    evals = {"val_loss": Points(*(np.array([250.0]), *[np.array([2.5])] * 3))}
    return replace(
        RunState("d16", "runs/d16").view(),
        phase="base",
        step=250,
        last={"loss": 2.417931, "tok_per_sec": 431_260.0, "mfu": 43.9, "grad_norm": 0.3, "loss/ce": 2.0},
        evals=evals,
        eta_s=3600.0,
        cost=RunCost(8.0, 4.0, 12.0, None, 2),
        ranks={"3": (248, 1.5)},
        gpus=[gpu(power_w_last=650.5, power_w_min=600.0, power_w_mean=640.0, power_w_max=700.0, temp_c_last=61.0,
                  util_last=99.0, energy_j_last=5.5, mem_used_mib_last=40000.0)],
    )  # fmt: skip


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    pytest.importorskip("prometheus_client")
    opened = Exporter(":0")
    yield opened
    opened.close()


def scraped(exporter: Exporter) -> dict[str, list[tuple[dict[str, str], float]]]:
    from prometheus_client.parser import text_string_to_metric_families

    with urllib.request.urlopen(f"http://{exporter.address}/metrics", timeout=PATIENCE_S) as answer:
        text = answer.read().decode()
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_gpus_stand_under_dcgms_names_and_opentelemetrys_in_their_units(
    exporter: Exporter, view: View
) -> None:
    exporter.show([(view, [])])
    found = scraped(exporter)
    labels, watts = found["DCGM_FI_DEV_POWER_USAGE"][0]
    assert watts == 650.5
    assert labels["Hostname"] == "node7"
    assert (labels["run"], labels["gpu"], labels["UUID"]) == ("d16", "0", "GPU-abc")
    assert found["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"][0][1] == 5500
    assert found["hw_energy_joules_total"][0][1] == 5.5
    assert found["hw_gpu_utilization_ratio"][0][1] == pytest.approx(0.99)
    assert found["hw_gpu_memory_limit_bytes"][0][1] == 81559 * 2**20
    assert "DCGM_FI_DEV_MEMORY_TEMP" not in found  # not measured: no sample


def test_last_second_has_its_least_mean_and_most(exporter: Exporter, view: View) -> None:
    exporter.show([(view, [])])
    found = scraped(exporter)
    assert [found[f"gputel_gpu_power_w_{name}"][0][1] for name in ("min", "mean", "max")] == [600, 640, 700]


def test_training_has_run_phase_and_rank(exporter: Exporter, view: View) -> None:
    exporter.show([(view, ["nan"])])
    found = scraped(exporter)
    assert found["gputel_train_loss"] == [({"run": "d16", "phase": "base", "rank": ""}, 2.417931)]
    assert found["gputel_train_loss_ce"][0][1] == 2.0
    assert found["gputel_eval_val_loss"][0][1] == 2.5
    assert found["gputel_rank_step"] == [({"run": "d16", "phase": "base", "rank": "3"}, 248)]
    assert found["gputel_alarm_active"] == [({"run": "d16", "rule": "nan"}, 1)]


def test_labels_have_their_secrets_masked(exporter: Exporter, view: View) -> None:
    exporter.show([(replace(view, name="d16 --token=hunter2"), ["nan"])])
    for name in ("gputel_train_loss", "gputel_alarm_active", "gputel_gpu_temp_c_last"):
        assert {labels["run"] for labels, _ in scraped(exporter).get(name, [])} <= {"d16 --token=***"}
    assert scraped(exporter)["gputel_alarm_active"]


def test_gpu_that_is_sampled_no_more_has_no_sample(exporter: Exporter, view: View) -> None:
    old = replace(view.gpus[0], at=view.gpus[0].at - timedelta(minutes=1))
    exporter.show([(replace(view, gpus=[old]), [])])
    assert "DCGM_FI_DEV_POWER_USAGE" not in scraped(exporter)


def test_every_metric_of_the_dashboard_is_exported(exporter: Exporter, view: View) -> None:
    bits = {**view.evals, "val_bpb": view.evals["val_loss"]}
    exporter.show([(replace(view, evals=bits), ["nan"])])
    dashboard = json.loads((ROOT / "deploy" / "grafana.json").read_text())
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"\b(\w+)\{", target["expr"])
    }
    assert asked
    assert asked - scraped(exporter).keys() == set()


@pytest.mark.parametrize(
    ("address", "place"),
    [
        (":9400", ("127.0.0.1", 9400)),
        ("9400", ("127.0.0.1", 9400)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
        ("[::1]:80", ("::1", 80)),
    ],
)
def test_without_a_host_this_machine_alone_can_ask(address: str, place: tuple[str, int]) -> None:
    assert listening(address) == place


@pytest.mark.parametrize("address", ["", "host:", "a:b", ":99999", "http://x:1"])
def test_address_that_is_none_is_wrong_usage(address: str) -> None:
    with pytest.raises(
        GputelError, match=r"is not \[HOST\]:PORT; write e.g. :9400 or 0.0.0.0:9400"
    ) as caught:
        listening(address)
    assert caught.value.exit_code == 2


def test_port_that_is_taken_is_one_line(exporter: Exporter) -> None:
    port = exporter.address.rpartition(":")[2]
    with pytest.raises(GputelError) as caught:
        Exporter(f":{port}")
    assert str(caught.value) == (
        f"--prometheus :{port}: cannot listen there: address already in use; name another port, such as :9401"
    )


def test_without_its_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    with pytest.raises(
        GputelError, match=r"^--prometheus: prometheus-client is not installed; pip install 'gputel\["
    ):
        Exporter(":0")


@pytest.mark.long
@pytest.mark.needs("prometheus")
def test_real_prometheus_scrapes_it(exporter: Exporter, view: View, tmp_path: Path) -> None:
    exporter.show([(view, ["nan"])])
    config = tmp_path / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s}\n"
        f"scrape_configs: [{{job_name: gputel, static_configs: [{{targets: ['{exporter.address}']}}]}}]\n"
    )
    port = free_port()
    command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        try:
            (power,) = _asked(port, "DCGM_FI_DEV_POWER_USAGE")
            (loss,) = _asked(port, "gputel_train_loss")
        finally:
            server.terminate()
    assert power["value"][1] == "650.5"
    assert power["metric"]["modelName"] == "NVIDIA H100 80GB HBM3"
    assert loss["value"][1] == "2.417931"


def _asked(port: int, query: str) -> list[dict[str, Any]]:
    """Until it has an answer: it starts in its own time."""
    address = f"http://127.0.0.1:{port}/api/v1/query?query={query}"

    def answer() -> list[dict[str, Any]]:
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=5) as got:
            result: list[dict[str, Any]] = json.load(got)["data"]["result"]
            return result
        return []

    return until(answer, f"{query} from prometheus", pause_s=0.1)


def status(exporter: Exporter, host: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", int(exporter.address.rpartition(":")[2]), timeout=60)
    connection.putrequest("GET", "/metrics", skip_host=True)
    connection.putheader("Host", host)
    connection.endheaders()
    return connection.getresponse().status


@pytest.mark.parametrize(
    ("address", "host", "expected"),
    [
        (":0", "localhost:18000", 200),
        (":0", "127.0.0.1", 200),
        (":0", "rebound.example", 421),
        (":0", "node7", 421),
        (":0", "", 421),
        ("0.0.0.0:0", "10.0.0.7:9400", 200),
        ("0.0.0.0:0", "gputel.monitoring.svc", 200),
        ("0.0.0.0:0", "rebound.example", 421),
    ],
)
def test_scrape_under_the_name_of_a_site_is_refused(address: str, host: str, expected: int) -> None:
    with contextlib.closing(Exporter(address)) as opened:
        assert status(opened, host) == expected
