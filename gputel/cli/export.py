"""`gputel export RUN`"""

from __future__ import annotations

from pathlib import Path

import click

from gputel.cli import progress_line
from gputel.cli.help import Command

EXAMPLES = (
    "gputel export latest --parquet gpus.parquet",
    "gputel export runs/tiny --csv gpus.csv --layout gpu_metrics",
    "gputel export runs/tiny --csv processes.csv --table process",
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
    help="Another table: its rates, a row a second.",
)
@click.option("--force", is_flag=True, help="Overwrite a file that gputel did not write.")
@progress_line.shown()
def command(run: str, csv: Path | None, parquet: Path | None, layout: str, table: str, force: bool) -> None:
    """Write a run's GPU telemetry as one wide table: a row a tick, a column a GPU and reading.

    Or what the machine around the GPUs did, with --table.

    RUN is a run folder, or `latest`.
    """
    from gputel.analysis import document, progress, text
    from gputel.analysis.exports import recording
    from gputel.analysis.runs.recording import open_recording
    from gputel.cli import show, sources

    if csv is None and parquet is None:
        raise click.UsageError("nothing to write: name a file with --csv or --parquet")
    if table != "gpu" and layout != "wide":
        raise click.UsageError("--layout is of the GPUs; leave it or --table out")
    path = sources.one_run(run)
    if table != "gpu":
        _write_seconds(path, csv, parquet, table, force=force)
        return
    caution = document.caution(open_recording(path).simulated)
    for target, write in ((csv, recording.to_csv), (parquet, recording.to_parquet)):
        if target is not None:
            with progress.stage(f"writing {target}", recording.steps(path), "parts") as done:
                write(path, target, layout, force=force, done=done)
            facts = [text.size(target.stat().st_size), *([caution] if caution else [])]
            show.note(f"{target}: {'; '.join(facts)}")


def _write_seconds(path: Path, csv: Path | None, parquet: Path | None, table: str, *, force: bool) -> None:
    from gputel.analysis import text
    from gputel.analysis.exports import recording
    from gputel.cli import show

    for target, write in ((csv, recording.seconds_to_csv), (parquet, recording.seconds_to_parquet)):
        if target is not None:
            write(path, target, table, force=force)
            show.note(f"{target}: {text.size(target.stat().st_size)}")
