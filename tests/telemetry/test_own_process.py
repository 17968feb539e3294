"""Modules of ours that are processes of their own: they start in the folder of the training."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gputel.telemetry import own_process

MODULES = (
    "gputel.analysis.incidents.watcher",
    "gputel.analysis.live.guard",
    "gputel.cli.final_report",
    "gputel.telemetry.inside.drain",
    "gputel.telemetry.remote.sidecar",
    "gputel.telemetry.store.compact",
)


@pytest.mark.parametrize("module", MODULES)
def test_modules_in_the_users_folder_are_not_imported(module: str, tmp_path: Path) -> None:
    """A json.py may lie there."""
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    result = subprocess.run(probe(module), cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stdout == f"{module}\n"


def test_sitecustomize_of_the_training_does_not_run_in_our_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    result = subprocess.run(probe(MODULES[0]), capture_output=True, text=True, check=True)
    assert result.stdout == f"{MODULES[0]}\n"


@pytest.mark.parametrize(
    ("variable", "option"),
    [("PYTHONDONTWRITEBYTECODE", "-B"), ("PYTHONUTF8", "-X"), ("PYTHONNOUSERSITE", "-s")],
)
def test_settings_of_this_python_are_those_of_its_children(variable: str, option: str) -> None:
    code = "from gputel.telemetry import own_process; print(*own_process.options())"
    environment = {**os.environ, variable: "1"}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert {"-E", option} <= set(result.stdout.split())


def test_environment_that_no_option_replaces_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8")
    assert own_process.options() == []


def probe(module: str) -> list[str]:
    """Arguments of a process of ours that only says whose `main` it would run."""
    *before, code = own_process.argv(module)
    return [*before, code.replace("main(*sys.argv[1:])", "print(main.__module__)")]
