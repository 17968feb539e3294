"""The recorder and deploy/trainer.slurm under a real Slurm of two nodes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.recordings import until
from tests.trainer import slurm

pytestmark = [pytest.mark.long, pytest.mark.needs("slurm")]

SCRIPT = Path(__file__).parents[2] / "deploy" / "trainer.slurm"
TRAINING = "--depth 1 --dim 32 --seq 32 --device-batch-size 2 --steps 100000 --eval-tokens 1024".split()
ON_A_CPU = "--exclusive --gpus-per-node=0 --cpus-per-task=1".split()


@dataclass(frozen=True)
class Cluster:
    """Runs Slurm's programs in a folder."""

    environment: dict[str, str]
    folder: Path

    def run(self, *arguments: str) -> str:
        return subprocess.run(
            arguments, env=self.environment, cwd=self.folder, stdout=subprocess.PIPE, text=True, check=True
        ).stdout.strip()

    def train(self) -> str:
        return self.run("sbatch", "--parsable", "--output=job.log", *ON_A_CPU, str(SCRIPT), *TRAINING)

    def wait(self, job: str, *signs: str) -> str:
        """Returns what Slurm says of the job once it holds all signs, as `JobState=RUNNING`."""
        return self._until(lambda: self.run("scontrol", "show", "job", job), *signs)

    def wait_for_output(self, *signs: str) -> str:
        return self._until(lambda: self.output, *signs)

    @property
    def output(self) -> str:
        log = self.folder / "job.log"
        return log.read_text() if log.exists() else ""

    def _until(self, look: Callable[[], str], *signs: str) -> str:
        return until(
            lambda: seen if all(sign in (seen := look()) for sign in signs) else "",
            lambda: f"{signs} in\n{look()}\n{self.output}",
            pause_s=0.2,
        )


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    if os.geteuid():
        pytest.skip("only root can start Slurm's daemons")
    with slurm.cluster() as environment:
        yield environment


@pytest.fixture
def cluster(environment: dict[str, str], tmp_path: Path) -> Iterator[Cluster]:
    here = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "HEAD": "127.0.0.1",
        "RANKS": "1",
        "OMP_NUM_THREADS": "1",
        "RUN": str(tmp_path / "run"),
    }
    cluster = Cluster({**environment, **here}, tmp_path)
    yield cluster
    cluster.run("scancel", "--user=root")
    until(lambda: not cluster.run("squeue", "-h"), "no jobs", pause_s=0.2)


def facts(folder: Path) -> dict[str, object]:
    result: dict[str, object] = json.loads((folder / "run.json").read_text())
    return result


def test_srun_records_each_node_beside_the_others(cluster: Cluster) -> None:
    cluster.run("srun", "--nodes=2", "gputel", "record", "--out", "run", "--", "hostname")
    nodes = [facts(cluster.folder / "run" / "nodes" / rank) for rank in ("0", "1")]
    assert [(node["node_rank"], node["nodes"], node["exit_code"]) for node in nodes] == [(0, 2, 0), (1, 2, 0)]


def test_each_task_of_an_array_is_a_run_of_its_own(cluster: Cluster) -> None:
    command = 'gputel record --out "runs/$SLURM_ARRAY_JOB_ID-$SLURM_ARRAY_TASK_ID" -- true'
    job = cluster.run("sbatch", "--parsable", "--wait", "--array=0-2", "--wrap", command)
    runs = [facts(cluster.folder / "runs" / f"{job}-{task}") for task in range(3)]
    assert [run["node_rank"] for run in runs] == [None] * 3


def test_preempted_training_is_requeued_goes_on_and_ends_at_scancel(cluster: Cluster) -> None:
    job = cluster.train()
    cluster.wait_for_output("step 00002/")
    cluster.run("sbatch", "--partition=high", "--nodes=2", "--exclusive", "--wrap", "true")
    cluster.wait(job, "JobState=PENDING", "Restarts=1")
    resumed = cluster.wait_for_output("Resuming from step_")  # Slurm waits for two minutes
    assert resumed.count("Saved model file to") == 1
    recorded = cluster.folder / "run" / "recorded" / "nodes"
    assert [facts(recorded / rank / "segments" / "2")["node_rank"] for rank in ("0", "1")] == [0, 1]
    cluster.run("scancel", job)
    cluster.wait(job, "JobState=CANCELLED", "Restarts=1")


def test_warning_before_the_time_limit_saves_and_requeues(cluster: Cluster) -> None:
    job = cluster.train()
    cluster.wait_for_output("step 00002/")
    cluster.run("scancel", "--batch", "--signal=USR1", job)  # as --signal=B:USR1@120 does
    cluster.wait(job, "JobState=PENDING", "Restarts=1")
    assert "Saved model file to" in cluster.output
    assert [facts(cluster.folder / f"run/recorded/nodes/{rank}")["exit_code"] for rank in (0, 1)] == [1, 1]


def test_training_that_fails_is_not_requeued(cluster: Cluster) -> None:
    arguments = ("--output=job.log", *ON_A_CPU, str(SCRIPT), "--depth", "none")
    job = cluster.run("sbatch", "--parsable", *arguments)
    cluster.wait(job, "JobState=FAILED", "Restarts=0")
    cluster.wait_for_output("--depth")
