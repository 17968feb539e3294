"""`gputel info RUN`"""

from __future__ import annotations

from typing import Any

import click

from gputel.analysis import document, text


@click.command("info", short_help="Say what a run folder holds.")
@click.argument("run", default="latest")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def command(run: str, as_json: bool) -> None:
    """Say what a run folder holds: what ran, on which GPUs, what was recorded.

    RUN is a run folder, or `latest`.
    """
    from gputel.analysis.report.summary import run_contents
    from gputel.cli import show, sources

    held = run_contents(sources.one_run(run))
    if as_json:
        show.as_json(held)
    else:
        _print(held)


def _print(held: dict[str, Any]) -> None:
    from gputel.analysis.report.checkup import counted
    from gputel.cli import show

    caution = document.caution(held["simulated"])
    if caution:
        show.say(caution)
    show.facts(
        {
            "run": held["run"],
            "path": held["path"],
            "command": " ".join(held["argv"] or []) or "none: the GPUs were sampled",
            "host": held["host"],
            "commit": held["git"]
            and held["git"]["commit"][:12] + (" and changes" if held["git"]["dirty"] else ""),
            "tags": ", ".join(f"{key}={value}" for key, value in held["tags"].items()) or None,
            "time": held["duration_s"] and text.duration(held["duration_s"]),
            "downtime": held["downtime_s"] and text.duration(held["downtime_s"]),
        }
    )
    show.say("")
    names = ("node", "attempt", "started", "time", "exit", "output", "telemetry", "events")
    rows = [_segment(segment) for segment in held["segments"]]
    filled = [i for i in range(len(names)) if any(row[i] is not None for row in rows)]
    show.table([names[i] for i in filled], [[row[i] for i in filled] for row in rows])
    if held["telemetry"]:
        told = held["telemetry"]
        readings = [
            (name, facts["unit"], *(_figure(facts[key]) for key in ("min", "mean", "max")))
            for name, facts in told["columns"].items()
        ]
        many = "GPU" if len(told["gpus"]) == 1 else "GPUs"
        show.say(f"\n{told['rows']:,} rows of {len(told['gpus'])} {many}: {counted(held['gpus'])}")
        show.table(("reading", "unit", "min", "mean", "max"), readings)
    show.note(f"next: gputel export {held['path']} --parquet FILE, gputel parse {held['path']}")


def _segment(segment: dict[str, Any]) -> tuple[object, ...]:
    started = segment["started"]
    output = segment["output_bytes"]
    return (
        segment["node"],
        segment["attempt"],
        started and started[:19].replace("T", " ") + " UTC",
        "no end" if segment["duration_s"] is None else text.duration(segment["duration_s"]),
        segment["exit_code"],
        None if output is None else text.size(output),
        text.size(segment["gpu_bytes"]),
        ", ".join(f"{count} {kind}" for kind, count in segment["events"].items()) or None,
    )


def _figure(value: float | None) -> str | None:
    return None if value is None else text.number(value, 2)
