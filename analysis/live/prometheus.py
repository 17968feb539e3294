"""Serves the state of each run to Prometheus, under the names of dcgm-exporter, of OpenTelemetry and our own.

A scrape returns what `show` was last given. A reading that was not measured has no sample, and neither has a GPU
whose last second is older than `STALE`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from gputel.analysis.live.web import access
from gputel.telemetry.clock import wall_s
from gputel.telemetry.errors import GputelError
from gputel.telemetry.secrets import mask

if TYPE_CHECKING:
    from gputel.analysis.live.view import GpuView, View

STALE = timedelta(seconds=15)
STATISTICS = ("min", "mean", "max")


class Export(NamedTuple):
    """One of our readings under an exported name; multiplying by `times` converts it to the exported unit."""

    name: str
    reading: str
    times: float
    help: str
    counts: bool = False


EXPORTS = (
    Export("DCGM_FI_DEV_POWER_USAGE", "power_w_last", 1, "Power draw (in W)."),
    Export("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "energy_j_last", 1000, "Energy since boot (in mJ).", True),
    Export("DCGM_FI_DEV_GPU_TEMP", "temp_c_last", 1, "GPU temperature (in C)."),
    Export("DCGM_FI_DEV_MEMORY_TEMP", "temp_mem_c_last", 1, "Memory temperature (in C)."),
    Export("DCGM_FI_DEV_GPU_UTIL", "util_last", 1, "GPU utilization (in %)."),
    Export("DCGM_FI_DEV_MEM_COPY_UTIL", "mem_util_last", 1, "Memory utilization (in %)."),
    Export("DCGM_FI_DEV_FB_USED", "mem_used_mib_last", 1, "Framebuffer memory used (in MiB)."),
    Export("DCGM_FI_DEV_SM_CLOCK", "sm_mhz_last", 1, "SM clock frequency (in MHz)."),
    Export("DCGM_FI_DEV_MEM_CLOCK", "mem_mhz_last", 1, "Memory clock frequency (in MHz)."),
    Export("DCGM_FI_PROF_SM_ACTIVE", "sm_active_last", 0.01, "Share of SMs that were busy."),
    Export(
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "tensor_active_last", 0.01, "Share of cycles of the tensor pipe."
    ),
    Export(
        "DCGM_FI_PROF_DRAM_ACTIVE", "dram_active_last", 0.01, "Memory bandwidth utilization (as a share)."
    ),
    Export("hw_power_watts", "power_w_last", 1, "hw.power"),
    Export("hw_energy_joules", "energy_j_last", 1, "hw.energy", True),
    Export("hw_temperature_celsius", "temp_c_last", 1, "hw.temperature"),
    Export("hw_gpu_utilization_ratio", "util_last", 0.01, "hw.gpu.utilization"),
    Export("hw_gpu_memory_usage_bytes", "mem_used_mib_last", 1 << 20, "hw.gpu.memory.usage"),
    Export("hw_gpu_memory_limit_bytes", "memory_total_mib", 1 << 20, "hw.gpu.memory.limit"),
)
GPU_LABELS = ("run", "gpu", "UUID", "modelName", "Hostname", "hw_id", "hw_name")


class Exporter:
    """Serves until it is closed. Raises GputelError if it cannot listen on the address."""

    def __init__(self, address: str) -> None:
        self._client: Any = _client()
        self._views: list[tuple[View, Sequence[str]]] = []
        registry = self._client.CollectorRegistry()
        registry.register(self)
        host, port = listening(address)
        try:
            self._server, self._thread = self._client.start_http_server(port, host, registry)
        except OSError as error:
            fault = f"cannot listen there: {(error.strerror or str(error)).lower()}"
            raise GputelError(f"--prometheus {address}", fault, "name another port, such as :9401") from None
        self.address = f"{host}:{self._server.server_port}"
        self._server.set_app(_guarded(self._server.get_app(), host))

    def show(self, views: Sequence[tuple[View, Sequence[str]]]) -> None:
        """Sets what the next scrape returns: each run with the names of its active alarms."""
        self._views = [(replace(view, name=mask(view.name)), active) for view, active in views]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def collect(self) -> Iterator[Any]:
        """Yields the metric families; prometheus_client calls it at each scrape."""
        views = self._views
        yield from self._gpus([view for view, _ in views])
        yield from self._machines([view for view, _ in views])
        yield from self._training([view for view, _ in views])
        alarms = self._gauge("gputel_alarm_active", "An alarm that is active now.", ("run", "rule"))
        for view, active in views:
            for rule in sorted(set(active)):
                alarms.add_metric((view.name, rule), 1)
        yield alarms

    def _gpus(self, views: Sequence[View]) -> Iterator[Any]:
        now = datetime.fromtimestamp(wall_s(), timezone.utc)
        fresh = [(view, gpu) for view in views for gpu in view.gpus if now - gpu.at < STALE]
        for export in EXPORTS:
            core = self._client.core
            kind = core.CounterMetricFamily if export.counts else core.GaugeMetricFamily
            family = kind(export.name, export.help, labels=GPU_LABELS)
            if export.name.startswith("DCGM") and export.counts:  # dcgm-exporter's counters lack _total
                family = core.Metric(export.name, export.help, "unknown")
            for view, gpu in fresh:
                value = {**gpu.limits, **gpu.last}.get(export.reading)
                if value is not None:
                    self._add(family, export.name, _labels(view, gpu), value * export.times)
            yield family
        yield from self._seconds(fresh)

    def _seconds(self, fresh: Sequence[tuple[View, GpuView]]) -> Iterator[Any]:
        """Minimum, mean and maximum of every reading within the last whole second."""
        names = dict.fromkeys(name for _, gpu in fresh for name in gpu.last if name.endswith(STATISTICS))
        for name in names:
            family = self._gauge(f"gputel_gpu_{name}", "Over the last whole second.", GPU_LABELS)
            for view, gpu in fresh:
                if name in gpu.last:
                    family.add_metric(_labels(view, gpu), gpu.last[name])
            yield family

    def _machines(self, views: Sequence[View]) -> Iterator[Any]:
        """The last second of each machine, its disks and its networks."""
        now = datetime.fromtimestamp(wall_s(), timezone.utc)
        fresh = [(view, machine) for view in views for machine in view.machines if now - machine.at < STALE]
        families: dict[str, Any] = {}
        for view, machine in fresh:
            for (table, subject), figures in machine.figures.items():
                labels = ("run", "node") if not subject else ("run", "node", table)
                values = (view.name, machine.node) if not subject else (view.name, machine.node, subject)
                for name, value in figures.items():
                    full = f"gputel_{table}_{name}"
                    family = families.setdefault(
                        full, self._gauge(full, "Over the last whole second.", labels)
                    )
                    family.add_metric(values, value)
        yield from families.values()

    def _training(self, views: Sequence[View]) -> Iterator[Any]:
        labels = ("run", "phase", "rank")
        families: dict[str, Any] = {}
        for view in views:
            for name, value in training_figures(view).items():
                family = families.setdefault(name, self._gauge(name, "Last value in the log.", labels))
                family.add_metric((view.name, view.phase or "", ""), value)
            for rank, (step, silent_s) in view.ranks.items():
                places: tuple[tuple[str, float | None], ...] = (("step", step), ("silent_seconds", silent_s))
                for name, place in places:
                    family = families.setdefault(
                        f"gputel_rank_{name}", self._gauge(f"gputel_rank_{name}", "Of one rank.", labels)
                    )
                    if place is not None:
                        family.add_metric((view.name, view.phase or "", rank), place)
        yield from families.values()

    def _gauge(self, name: str, text: str, labels: Sequence[str]) -> Any:
        return self._client.core.GaugeMetricFamily(name, text, labels=labels)

    def _add(self, family: Any, name: str, labels: Sequence[str], value: float) -> None:
        if hasattr(family, "add_metric"):
            family.add_metric(labels, value)
        else:
            family.add_sample(name, dict(zip(GPU_LABELS, labels, strict=True)), value)


def check(address: str) -> None:
    """Raises GputelError for a wrong address or a missing prometheus-client, without importing it."""
    listening(address)
    if find_spec("prometheus_client") is None:
        raise _missing()


def listening(address: str) -> tuple[str, int]:
    """Splits `:9400`, `9400`, `0.0.0.0:9400` or `[::]:9400`; without a host only this machine can scrape."""
    match = re.fullmatch(
        r"(?:(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^:\[\]]*)):)?(?P<port>\d{1,5})", address
    )
    if not match or int(match["port"]) > 65535:
        raise GputelError(
            f"--prometheus {address}", "is not [HOST]:PORT", "write e.g. :9400 or 0.0.0.0:9400", exit_code=2
        )
    return match["six"] or match["host"] or "127.0.0.1", int(match["port"])


def _client() -> Any:
    try:
        import_module("prometheus_client.core")
    except ImportError:
        raise _missing() from None
    return import_module("prometheus_client")


def _missing() -> GputelError:
    hint = "pip install 'gputel[prometheus]'"
    return GputelError("--prometheus", "prometheus-client is not installed", hint)


def _labels(view: View, gpu: GpuView) -> tuple[str, ...]:
    host = gpu.host or gpu.node
    return (
        view.name,
        gpu.gpu,
        gpu.uuid or "",
        gpu.name or "",
        host,
        gpu.uuid or f"{host}/{gpu.gpu}",
        gpu.name or "",
    )


def training_figures(view: View) -> dict[str, float]:
    """Last values under the names of the columns, and progress, time and cost of the run."""
    cost = view.cost
    progress = {
        "gputel_step": view.step,
        "gputel_steps_total": view.total_steps,
        "gputel_eta_seconds": view.eta_s,
        "gputel_elapsed_seconds": view.elapsed_s,
        "gputel_silent_seconds": view.silent_s,
        "gputel_cost": cost.spent if cost else None,
        "gputel_cost_at_end": cost.at_end if cost else None,
        "gputel_running": float(view.status == "running"),
    }
    values = {f"gputel_train_{_legal(name)}": value for name, value in view.last.items()}
    evals = {
        f"gputel_eval_{_legal(name)}": float(points.mean[-1])
        for name, points in view.evals.items()
        if len(points.mean)
    }
    return {
        name: float(value) for name, value in {**progress, **values, **evals}.items() if value is not None
    }


def _legal(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def _guarded(app: Any, host: str) -> Any:
    """Refuses requests whose Host header names a site of the internet: a page there must not read metrics."""
    is_ours = access.is_loopback if access.is_local(host) else access.is_private

    def guarded(environ: dict[str, Any], start: Any) -> Any:
        if is_ours(str(environ.get("HTTP_HOST", ""))):
            return app(environ, start)
        start("421 Misdirected Request", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"the Host header names another machine\n"]

    return guarded
