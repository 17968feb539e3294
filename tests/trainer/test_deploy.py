"""The files of deploy/, as their launchers would run them, with a torchrun that prints its arguments."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from gputel.telemetry.remote.local_copy import local_copy

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    programs = {
        "torchrun": 'echo "torchrun $*"',
        "scontrol": "echo first-node",
        "srun": 'shift; exec "$@"',  # its own option, then the command
    }
    (tmp_path / "bin").mkdir()
    for name, script in programs.items():
        program = tmp_path / "bin" / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.mark.long
def test_kubernetes_pod_records_its_node_and_goes_on_when_it_starts_again(
    tmp_path: Path, surroundings: dict[str, str]
) -> None:
    job = (DEPLOY / "trainer.kubernetes.yaml").read_text()
    script = textwrap.dedent(job.partition("- |\n")[2].partition("          resources:")[0])
    pod = {"JOB_COMPLETIONS": "4", "JOB_COMPLETION_INDEX": "1"}
    for _ in range(2):
        subprocess.run(
            ["bash", "-c", script.replace("/shared", str(tmp_path))],
            env={**surroundings, **pod},
            capture_output=True,
            check=True,
        )
    node = tmp_path / "d24" / "recorded" / "nodes" / "1"
    result = (node / "output.log").read_text()
    assert result.startswith("torchrun --nnodes=4 --node_rank=1 --nproc_per_node=gpu --max-restarts=3 ")
    assert "-m gputel.trainer --depth 24" in result
    assert (node / "segments" / "2" / "output.log").read_text() == result


def test_slurm_starts_a_recorder_on_every_node_and_passes_the_options_on(
    tmp_path: Path, surroundings: dict[str, str]
) -> None:
    slurm = {"SLURM_JOB_NAME": "j", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NNODES": "2"}
    subprocess.run(
        ["bash", str(DEPLOY / "trainer.slurm"), "--depth", "16"],
        env={**surroundings, **slurm, "SLURM_NODEID": "0", "RUN": str(tmp_path / "run")},
        capture_output=True,
        check=True,
    )
    result = (tmp_path / "run" / "recorded" / "nodes" / "0" / "output.log").read_text()
    assert "--nnodes=2" in result
    assert "--rdzv_endpoint=first-node:29507" in result
    assert result.endswith(f"-m gputel.trainer --out {tmp_path}/run/trained --resume auto --depth 16\n")


@pytest.mark.parametrize("name", ["trainer.kubernetes.yaml", "sync.kubernetes.yaml"])
def test_kubernetes_knows_every_field(name: str) -> None:
    for document in yaml.safe_load_all((DEPLOY / name).read_text()):
        kubernetes_validate.validate(document, "1.30", strict=True)


def test_skypilot_file_has_only_documented_fields() -> None:
    """Their names are from SkyPilot's documentation; nothing was run there."""
    task = yaml.safe_load((DEPLOY / "skypilot.yaml").read_text())
    assert task.keys() <= {
        "name",
        "workdir",
        "num_nodes",
        "resources",
        "envs",
        "secrets",
        "file_mounts",
        "setup",
        "run",
    }


def script_of_kubernetes() -> str:
    return textwrap.dedent(
        (DEPLOY / "sync.kubernetes.yaml").read_text().partition("- |\n")[2].partition("          res")[0]
    )


def script_of_skypilot() -> str:
    task = yaml.safe_load((DEPLOY / "skypilot.yaml").read_text())
    return f"export BUCKET={task['envs']['BUCKET']}\n{task['run']}"


def script_of_runpod() -> str:
    return f"set -- train.py\n{(DEPLOY / 'runpod.sh').read_text()}"


@pytest.mark.parametrize(
    ("script", "variables"),
    [
        (script_of_kubernetes, {"JOB_COMPLETIONS": "4", "JOB_COMPLETION_INDEX": "1"}),
        (
            script_of_skypilot,
            {
                "SKYPILOT_NUM_NODES": "4",
                "SKYPILOT_NODE_RANK": "1",
                "SKYPILOT_NUM_GPUS_PER_NODE": "8",
                "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2",
            },
        ),
        (
            script_of_runpod,
            {"NUM_NODES": "4", "NODE_RANK": "1", "NUM_TRAINERS": "8", "PRIMARY_ADDR": "10.0.0.1"},
        ),
    ],
)
def test_node_without_a_shared_disk_sends_its_recording_to_the_bucket(
    script: Callable[[], str],
    variables: dict[str, str],
    tmp_path: Path,
    surroundings: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("obstore", reason="the extra s3 is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/cache")
    subprocess.run(
        ["bash", "-c", script().replace("s3://bucket", f"file://{tmp_path}/bucket")],
        env={**surroundings, **variables},
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    node = local_copy(f"file://{tmp_path}/bucket/runs/d24").path / "nodes" / "1"
    assert (node / "output.log").read_text().startswith("torchrun --nnodes=4 --node_rank=1 --nproc_per_node=")
    assert (node / "output.log").read_text().rstrip().endswith("train.py")
