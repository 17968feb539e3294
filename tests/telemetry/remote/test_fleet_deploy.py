"""The files of deploy/ for a fleet: every alert fires on its plant and only there, every panel has a curve."""

from __future__ import annotations

import json
import re
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest

from gputel.telemetry.remote import remote_write
from gputel.telemetry.remote.live_rows import LiveRow
from gputel.telemetry.remote.push import Backlog, Pusher
from gputel.telemetry.remote.receiver import Receiver
from tests.conftest import ROOT
from tests.recordings import until
from tests.telemetry.remote.database import Database

DEPLOY = ROOT / "deploy"


HEALTHY = {
    "gputel_up": "1x1200",
    "gputel_gpu_power_w_mean": "600+0x1200",
    "gputel_gpu_ecc_last": "3x1200",
    "gputel_gpu_throttle_any": "4x1200",
    "gputel_alarm_active": "0x1200",
}
OTHERS = {"gputel_gpu_power_w_mean": {"gpu": "0"}, "gputel_gpu_ecc_last": {"gpu": "0"},
          "gputel_gpu_throttle_any": {"gpu": "0"}, "gputel_alarm_active": {"rule": "nan"}}  # fmt: skip
PLANTS = {
    "": {},
    "GputelNodeGone": {"gputel_up": "1x900 _x300"},
    "GputelAlarm": {"gputel_alarm_active": "0x900 1x300"},
    "GputelLowPower": {"gputel_gpu_power_w_mean": "600x900 400x300"},
    "GputelEccErrors": {"gputel_gpu_ecc_last": "3x1000 4x200"},
    "GputelThrottled": {"gputel_gpu_throttle_any": "4x1000 68x200"},
}
ENDED = {"gputel_up": "1x900 0 _x300"}
LESS = {"gputel_gpu_power_w_mean": "600x900 430x300"}
"""28 % less."""


def rule_test(plant: dict[str, str], alert: str) -> dict[str, object]:
    """One of four nodes has the plant; after twenty minutes it has fired, and nothing else has."""
    series = []
    for node in range(4):
        for name, values in ({**HEALTHY, **plant} if node == 2 else HEALTHY).items():
            labels = {"job": "gputel", "run": "d20", "node": f"{node}", **OTHERS.get(name, {})}
            text = ",".join(f'{label}="{value}"' for label, value in labels.items())
            series.append({"series": f"{name}{{{text}}}", "values": values})
    names = [name for name in PLANTS if name]
    # samples a second apart; rules are looked at each 15 s
    checks = [
        {"alertname": name, "eval_time": "19m50s", "exp_alerts": [expected(name)] if name == alert else []}
        for name in names
    ]
    return {"interval": "1s", "input_series": series, "alert_rule_test": checks}


def expected(alert: str) -> dict[str, object]:
    name = {"GputelAlarm": "gputel_alarm_active", "GputelEccErrors": "gputel_gpu_ecc_last",
            "GputelThrottled": "gputel_gpu_throttle_any"}.get(alert, "")  # fmt: skip
    job = {} if alert == "GputelLowPower" else {"job": "gputel"}
    labels = {"run": "d20", "node": "2", **job, **OTHERS.get(name, {})}
    return {"exp_labels": labels, "exp_annotations": {"summary": SUMMARIES[alert]}}


SUMMARIES = {
    "GputelNodeGone": "d20: nothing has come from node 2 for two minutes",
    "GputelAlarm": "d20, node 2: nan",
    "GputelLowPower": "d20: node 2 draws 400 W, 30 % less than the others",
    "GputelEccErrors": "d20, node 2, GPU 0: ECC errors",
    "GputelThrottled": "d20, node 2, GPU 0: throttled by heat or hardware",
}


@pytest.mark.needs("prometheus")
@pytest.mark.parametrize(
    ("plant", "alert"),
    [*((plant, alert) for alert, plant in PLANTS.items()), (ENDED, ""), (LESS, "")],
    ids=[*(alert or "healthy" for alert in PLANTS), "ended", "a little less"],
)
def test_alert_fires_on_its_plant_and_only_there(tmp_path: Path, plant: dict[str, str], alert: str) -> None:
    tests = {
        "rule_files": [f"{DEPLOY / 'alerts.yaml'}"],
        "evaluation_interval": "15s",
        "tests": [rule_test(plant, alert)],
    }
    (tmp_path / "tests.yaml").write_text(json.dumps(tests))  # JSON is YAML
    done = subprocess.run(
        ["promtool", "test", "rules", f"{tmp_path}/tests.yaml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.needs("prometheus")
def test_every_alert_has_a_plant() -> None:
    rules = (DEPLOY / "alerts.yaml").read_text()
    assert re.findall(r"alert: (\w+)", rules) == [name for name in PLANTS if name]
    subprocess.run(["promtool", "check", "rules", f"{DEPLOY}/alerts.yaml"], check=True, capture_output=True)


def test_every_panel_of_the_board_has_a_curve(live_run: Path, database: Database) -> None:
    board = json.loads((DEPLOY / "grafana-fleet.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(queries) >= len(board["panels"]) > 5
    names = sorted({name for query in queries for name in re.findall(r"gputel_\w+", query)})
    run = live_run.parent.name
    labels = [
        remote_write.labels(name, {"run": run, "node": "0", "gpu": "0", "rule": "nan"}) for name in names
    ]
    backlog, now = Backlog(), int(time.time())
    for second in range(5):
        backlog.add(LiveRow(now - 8 + second, dict.fromkeys(labels, 1.0)))
    server = Receiver(database.address, {})
    pusher = Pusher(live_run, server, backlog, now=time.time)
    while len(backlog):
        pusher.turn()
    server.close()
    for query in queries:
        until(partial(database.query, query.replace("$run", run)), query, pause_s=0.05)
    assert not (live_run / "events.jsonl").exists()
