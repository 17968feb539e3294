import subprocess
from pathlib import Path

import pytest

from gputel.telemetry import identity


def test_variables_by_which_runs_are_compared_are_kept_and_no_others() -> None:
    env = {"NCCL_IB_DISABLE": "1", "CUDA_VISIBLE_DEVICES": "0,1", "HF_TOKEN": "x", "HOME": "/home/me"}
    assert identity.environment(env) == {"CUDA_VISIBLE_DEVICES": "0,1", "NCCL_IB_DISABLE": "1"}


def test_secret_in_a_kept_variable_is_masked() -> None:
    assert identity.environment({"NVIDIA_API_KEY": "abc"}) == {"NVIDIA_API_KEY": "***"}


def test_secret_tag_is_masked() -> None:
    facts = identity.facts([], env={}, cwd=Path(), name="x", tags={"api_key": "abc", "lr": "3e-4"})
    assert facts["tags"] == {"api_key": "***", "lr": "3e-4"}


def test_price_and_budget_stand_beside_the_command() -> None:
    facts = identity.facts([], env={}, cwd=Path(), name="x", tags={}, price=2.5, budget=100)
    assert (facts["price"], facts["budget"]) == (2.5, 100)


@pytest.mark.parametrize(
    ("env", "node"),
    [
        ({}, (None, None)),
        ({"SLURM_NODEID": "0", "SLURM_NNODES": "1"}, (None, 1)),
        ({"SLURM_NODEID": "3", "SLURM_NNODES": "4"}, ("3", 4)),
        ({"NODE_RANK": "1", "NNODES": "2", "SLURM_NODEID": "9"}, ("1", 2)),
        ({"PET_NODE_RANK": "02", "PET_NNODES": "1:4"}, ("2", 4)),
        ({"SKYPILOT_NODE_RANK": "1", "SKYPILOT_NUM_NODES": "2"}, ("1", 2)),
        ({"JOB_COMPLETION_INDEX": "5"}, ("5", None)),
        ({"NODE_RANK": "head"}, (None, None)),
    ],
)
def test_node_is_known_from_the_environment(env: dict[str, str], node: tuple[str | None, int | None]) -> None:
    assert identity.node(env)[:2] == node


@pytest.mark.parametrize(
    ("command", "node"),
    [
        ("torchrun --nnodes 16 --node_rank 3 train.py", ("3", 16)),
        ("torchrun --nnodes=16 --node-rank=0 train.py", ("0", 16)),
        ("accelerate launch --num_machines 2 --machine_rank 1 train.py", ("1", 2)),
        ("torchrun --nnodes=1:4 --rdzv_backend=c10d train.py", (None, 4)),
        ("torchrun --nnodes 1 --node_rank 0 train.py", (None, 1)),
        ("torchrun --nproc_per_node 8 --node_rank 0 train.py", (None, None)),
        ("torchrun --nnodes", (None, None)),
        ("python -m torch.distributed.run --nnodes 4 --node_rank 2 -m package.train --nnodes 8", ("2", 4)),
        ("uv run --frozen /opt/bin/torchrun --standalone --nnodes 2 --node-rank 1 train.py", ("1", 2)),
        ("deepspeed --num_nodes=2 --node_rank=1 --no_python ./train --node_rank 7", ("1", 2)),
    ],
)
def test_node_is_known_from_the_options_of_a_launcher(
    command: str, node: tuple[str | None, int | None]
) -> None:
    assert identity.node({}, command.split())[:2] == node
    assert identity.node({"NODE_RANK": "7", "NNODES": "8"}, command.split())[:2] == ("7", 8)


@pytest.mark.parametrize(
    "command",
    [
        "python train.py --num_nodes 2 --node_rank 1",
        "python -m package.train --num_nodes 2 --node_rank 1",
        "python train.py --launcher torchrun --nnodes 2",
        "torchrun --nproc_per_node=8 train.py --num_nodes 2 --node_rank 1",
        "torchrun --nproc-per-node 8 -m package.train --num_nodes 2 --node_rank 1",
        "torchrun --standalone --no-python ./train --num_nodes 2",
        "accelerate launch --multi_gpu train.py --num_machines 2",
        "deepspeed train.py --deepspeed --num_nodes 2",
    ],
)
def test_options_of_the_script_itself_say_nothing_of_nodes(command: str) -> None:
    assert identity.node({}, command.split()) == (None, None, None)


def test_command_without_the_addresses_of_its_first_node() -> None:
    command = "torchrun --nnodes 2 --master_addr 10.0.0.7 --rdzv-endpoint=10.0.0.7:29500 train.py --lr 3"
    assert identity.without_addresses(command.split()) == "torchrun --nnodes 2 train.py --lr 3".split()


def test_git_says_commit_branch_and_changes_and_hides_the_password(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run(
            ["git", "-C", tmp_path, *who, *arguments], check=True, capture_output=True, text=True
        ).stdout

    git("init", "-q", "-b", "main")
    (tmp_path / "x").write_text("1")
    git("add", "x")
    git("commit", "-qm", "x")
    git("remote", "add", "origin", "https://user:ghp_secret@example.com/x.git")
    facts = identity.git(tmp_path)
    assert facts == {
        "commit": git("rev-parse", "HEAD").strip(),
        "branch": "main",
        "dirty": False,
        "remote": "https://***@example.com/x.git",
    }
    (tmp_path / "x").write_text("2")
    assert (identity.git(tmp_path) or {})["dirty"] is True


def test_outside_a_repository_there_is_no_git(tmp_path: Path) -> None:
    assert identity.git(tmp_path) is None


def test_packages_are_those_of_the_commands_own_interpreter(tmp_path: Path) -> None:
    info = tmp_path / "lib" / "python3.12" / "site-packages" / "some_package-1.2.3.dist-info"
    info.mkdir(parents=True)
    program = tmp_path / "bin" / "python"
    program.parent.mkdir()
    program.touch(mode=0o755)
    assert identity.packages(str(program)) == {"python": "3.12", "some-package": "1.2.3"}
