"""Series of a run -> a run of MLflow, written by its own client into a database or to a server.

An earlier export of the same run is known by its tag `gputel.run`, and gets only the values that it lacks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from gputel.analysis.exports.series import ExportedRun, TagSeries, library
from gputel.telemetry.errors import GputelError

EXPERIMENT, TAG = "gputel", "gputel.run"
AT_ONCE, PARAMETERS_AT_ONCE = 1_000, 100  # the most that a request may hold
LONGEST_PARAMETER, LONGEST_NAME = 6_000, 250
# it has no word for an unknown end
ENDINGS = {
    "completed": "FINISHED",
    "interrupted": "KILLED",
    "failed": "FAILED",
}
UNUSUAL = re.compile(r"[^\w\-. /:]", re.ASCII)


def write(run: ExportedRun, where: str | None) -> tuple[str, list[str]]:
    """Writes the run to a tracking URI; returns its id there, and the names of settings that had to be cut."""
    mlflow = library("mlflow")
    try:
        client = mlflow.MlflowClient(tracking_uri=where)
        experiment = client.get_experiment_by_name(EXPERIMENT)
    except mlflow.MlflowException as error:  # such as a folder, which newer versions refuse
        fault = str(error).split(". ", 1)[0]
        raise GputelError(
            f"--out {where or 'mlruns'}", fault, "name a database: sqlite:///mlflow.db"
        ) from None
    place = experiment.experiment_id if experiment else client.create_experiment(EXPERIMENT)
    found = client.search_runs([place], f"tags.`{TAG}` = '{run.key}'", max_results=1)
    number = found[0].info.run_id if found else _created(client, place, run)
    parameters = {UNUSUAL.sub("_", name)[:LONGEST_NAME]: str(value) for name, value in run.settings.items()}
    known = client.get_run(number).data.params
    _log_parameters(mlflow, client, number, {k: v for k, v in parameters.items() if k not in known})
    metrics = [metric for series in run.series for metric in _lacking(mlflow, client, number, series, found)]
    for at in range(0, len(metrics), AT_ONCE):
        client.log_batch(number, metrics=metrics[at : at + AT_ONCE])
    if run.status in ENDINGS:
        client.set_terminated(number, ENDINGS[run.status], _end_ms(run))
    return number, [name for name, value in parameters.items() if len(value) > LONGEST_PARAMETER]


def _created(client: Any, experiment: str, run: ExportedRun) -> str:
    created = client.create_run(
        experiment, start_time=int(run.started_s * 1000), tags={TAG: run.key}, run_name=run.name
    )
    return str(created.info.run_id)


def _log_parameters(mlflow: Any, client: Any, number: str, parameters: Mapping[str, str]) -> None:
    rows = [mlflow.entities.Param(name, value[:LONGEST_PARAMETER]) for name, value in parameters.items()]
    for at in range(0, len(rows), PARAMETERS_AT_ONCE):
        client.log_batch(number, params=rows[at : at + PARAMETERS_AT_ONCE])


def _lacking(mlflow: Any, client: Any, number: str, series: TagSeries, found: object) -> Iterator[Any]:
    """The values of a tag that the run does not have yet, by step and time."""
    name = UNUSUAL.sub("_", series.tag)[:LONGEST_NAME]
    history = client.get_metric_history(number, name) if found else ()
    known = {(metric.step, metric.timestamp) for metric in history}
    for step, moment, value in zip(
        series.steps.tolist(), series.times.tolist(), series.values.tolist(), strict=True
    ):
        time_ms = 0 if math.isnan(moment) else int(moment * 1000)
        if (step, time_ms) not in known:
            yield mlflow.entities.Metric(name, value, time_ms, step)


def _end_ms(run: ExportedRun) -> int | None:
    known = [float(times.max()) for each in run.series if not math.isnan((times := each.times).max())]
    return int(max(known) * 1000) if known else None
