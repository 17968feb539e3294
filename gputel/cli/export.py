"""`gputel export RUN`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gputel.analysis import progress, text
from gputel.cli import progress_line, show
from gputel.cli.help import Command

if TYPE_CHECKING:
    from gputel.analysis.exports.series import ExportedRun

EXAMPLES = (
    "gputel export latest --parquet gpus.parquet",
    "gputel export runs/tiny --csv gpus.csv --layout gpu_metrics",
    "gputel export runs/tiny --csv processes.csv --table process",
    "gputel export runs/tiny --to tensorboard --out tb/",
)


@click.command("export", cls=Command, examples=EXAMPLES)
@click.argument("run", default="latest")
@click.option("--csv", type=click.Path(path_type=Path), metavar="FILE", help="Write a CSV file.")
@click.option("--parquet", type=click.Path(path_type=Path), metavar="FILE", help="Write a Parquet file.")
@click.option(
    "--layout",
    type=click.Choice(["wide", "gpu_metrics"]),
    default="wide",
    show_default=True,
    help="wide: every reading; gpu_metrics: timestamp, elapsed_sec, gpu0_power_w, gpu0_temp_c, ...",
)
@click.option(
    "--table",
    type=click.Choice(["gpu", "host", "core", "disk", "net", "cgroup", "process"]),
    default="gpu",
    show_default=True,
    help="Another table: its rates, a row per second.",
)
@click.option(
    "--to",
    type=click.Choice(["tensorboard", "wandb", "mlflow"]),
    help="Write metrics, energy and GPU readings for another tool.",
)
@click.option("--out", metavar="PLACE", help="With --to: a folder, or for mlflow a tracking URI.")
@click.option("--force", is_flag=True, help="Overwrite a file that gputel did not write.")
@progress_line.shown()
def command(
    run: str,
    csv: Path | None,
    parquet: Path | None,
    layout: str,
    table: str,
    to: str | None,
    out: str | None,
    force: bool,
) -> None:
    """Write a run's GPU telemetry as one wide table: a row per tick, a column per GPU and reading.

    Or what the machine around the GPUs did, with --table; or all its curves for another tool, with --to.

    RUN is a run folder, or `latest`; with --to also a log or a store.
    """
    from gputel.cli import sources

    if csv is None and parquet is None and to is None:
        raise click.UsageError("nothing to write: name a file with --csv or --parquet, or a tool with --to")
    if out is not None and to is None:
        raise click.UsageError("--out goes with --to; --csv and --parquet name their files")
    if table != "gpu" and layout != "wide":
        raise click.UsageError("--layout is of the GPUs; leave it or --table out")
    if to is not None:
        _write_for_tool(run, to, out, force=force)
    if csv is None and parquet is None:
        return
    path = sources.one_run(sources.fetched(run))
    if table == "gpu":
        _write_ticks(path, csv, parquet, layout, force=force)
    else:
        _write_seconds(path, csv, parquet, table, force=force)


def _write_ticks(path: Path, csv: Path | None, parquet: Path | None, layout: str, *, force: bool) -> None:
    from gputel.analysis import document
    from gputel.analysis.exports import recording
    from gputel.analysis.runs.recording import open_recording

    caution = document.caution(open_recording(path).simulated)
    for target, write in ((csv, recording.to_csv), (parquet, recording.to_parquet)):
        if target is not None:
            with progress.stage(f"writing {target}", recording.steps(path), "parts") as done:
                write(path, target, layout, force=force, done=done)
            facts = [text.size(target.stat().st_size), *([caution] if caution else [])]
            show.note(f"{target}: {'; '.join(facts)}")


def _write_seconds(path: Path, csv: Path | None, parquet: Path | None, table: str, *, force: bool) -> None:
    from gputel.analysis.exports import recording

    for target, write in ((csv, recording.seconds_to_csv), (parquet, recording.seconds_to_parquet)):
        if target is not None:
            write(path, target, table, force=force)
            show.note(f"{target}: {text.size(target.stat().st_size)}")


def _write_for_tool(word: str, to: str, out: str | None, *, force: bool) -> None:
    from gputel.analysis.exports.series import exported, library
    from gputel.cli import sources

    if to != "tensorboard":
        library(to)  # a missing one is said before a long log is read
    subject = sources.one_subject(word)
    run = exported(subject)
    place, notes = _written(run, to, out, force=force)
    facts = [f"{len(run.series)} series, {run.values:,} values", *notes]
    facts += [subject.caution] if subject.caution else []
    show.note(f"{place}: {'; '.join(facts)}")


def _written(run: ExportedRun, to: str, out: str | None, *, force: bool) -> tuple[str, list[str]]:
    """Writes the run for one tool; returns where it lies, and what could not be written as it is."""
    from gputel.analysis.exports import event_files, mlflow, wandb

    if to == "tensorboard":
        return str(event_files.write(run, Path(out or "tb"), force=force)), []
    if to == "wandb":
        folder = wandb.write(run, Path(out or "."))
        return str(folder), [f"upload it with: wandb sync {folder}"]
    number, cut = mlflow.write(run, out)
    return f"MLflow's run {number}", [f"settings that were cut: {', '.join(cut)}"] if cut else []
