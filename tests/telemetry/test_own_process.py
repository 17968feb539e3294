"""Modules of ours that are processes of their own: they start in the folder of the training."""

import subprocess
from pathlib import Path

import pytest

from gputel.telemetry import own_process

MODULES = (
    "gputel.analysis.incidents.watcher",
    "gputel.analysis.live.guard",
    "gputel.cli.final_report",
    "gputel.telemetry.inside.drain",
    "gputel.telemetry.remote.sidecar",
)


@pytest.mark.parametrize("module", MODULES)
def test_modules_in_the_users_folder_are_not_imported(module: str, tmp_path: Path) -> None:
    """A json.py may lie there."""
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    python, option, code = own_process.argv(module)
    probe = code.replace("main(*sys.argv[1:])", "print(main.__module__)")
    result = subprocess.run([python, option, probe], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stdout == f"{module}\n"
