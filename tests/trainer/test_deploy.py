"""The scripts of deploy/, as Slurm and Kubernetes would run them, with a torchrun that prints its arguments."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

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
    assert "--rdzv_endpoint=first-node:29500" in result
    assert result.endswith(f"-m gputel.trainer --out {tmp_path}/run/trained --resume auto --depth 16\n")
