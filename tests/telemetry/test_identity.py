import subprocess
from pathlib import Path

import pytest

from gputel.telemetry import identity

SECRETS = [
    "sk-proj-Ab3dEf6hIj9kLmNoPq",
    "hf_AbCdEfGhIjKlMnOpQrStUvWxYz",
    "ghp_0123456789abcdefABCDEF0123456789abcd",
    "AKIAIOSFODNN7EXAMPLE",
    "glpat-abcdefghij0123456789",
    "nvapi-abcdefghijklmnopqrstuvwx0123",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJl",
    "0123456789abcdef0123456789abcdef01234567",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_text_that_looks_like_a_key_is_masked_anywhere(secret: str) -> None:
    for text in (secret, f"wandb login {secret}", f'bash -c "x={secret} python train.py"'):
        assert secret not in identity.mask(text)
        assert "***" in identity.mask(text)


@pytest.mark.parametrize(
    ("argv", "masked"),
    [
        (["train.py", "--api-key", "hunter2"], ["train.py", "--api-key", "***"]),
        (["train.py", "--wandb_api_key=hunter2"], ["train.py", "--wandb_api_key=***"]),
        (["--hf-token", "abc", "--lr", "3e-4"], ["--hf-token", "***", "--lr", "3e-4"]),
        (["env", "WANDB_API_KEY=hunter2", "python"], ["env", "WANDB_API_KEY=***", "python"]),
        (["bash", "-c", "export MY_SECRET='a b'; run"], ["bash", "-c", "export MY_SECRET=***; run"]),
        (["bash", "-c", "run --password hunter2 --x 1"], ["bash", "-c", "run --password *** --x 1"]),
        (["curl", "-H", "Authorization: Bearer abc123def456"], ["curl", "-H", "Authorization: Bearer ***"]),
        (["git", "clone", "https://me:pw@host/x.git"], ["git", "clone", "https://***@host/x.git"]),
    ],
)
def test_arguments_that_are_named_secret_are_masked(argv: list[str], masked: list[str]) -> None:
    assert identity.mask_argv(argv) == masked


@pytest.mark.parametrize(
    "argument",
    [
        "--tokens=100B",
        "--max-tokens",
        "--tokenizer",
        "--key-dim=64",
        "--run-name=2026-11-21-a-long-name-with-many-words-depth16",
        "data/edufineweb_train_000001.npy",
        "NCCL_DEBUG=INFO",
        "/data/checkpoints/0123456789abcdef0123456789abcdef/model.pt",
    ],
)
def test_ordinary_arguments_are_kept(argument: str) -> None:
    assert identity.mask_argv([argument, "12"]) == [argument, "12"]


def test_variables_by_which_runs_are_compared_are_kept_and_no_others() -> None:
    env = {"NCCL_IB_DISABLE": "1", "CUDA_VISIBLE_DEVICES": "0,1", "HF_TOKEN": "x", "HOME": "/home/me"}
    assert identity.environment(env) == {"CUDA_VISIBLE_DEVICES": "0,1", "NCCL_IB_DISABLE": "1"}


def test_secret_in_a_kept_variable_is_masked() -> None:
    assert identity.environment({"NVIDIA_API_KEY": "abc"}) == {"NVIDIA_API_KEY": "***"}


def test_secret_tag_is_masked() -> None:
    facts = identity.facts([], env={}, cwd=Path(), name="x", tags={"api_key": "abc", "lr": "3e-4"})
    assert facts["tags"] == {"api_key": "***", "lr": "3e-4"}


@pytest.mark.parametrize(
    ("env", "node"),
    [
        ({}, (None, None)),
        ({"SLURM_NODEID": "0", "SLURM_NNODES": "1"}, (None, 1)),
        ({"SLURM_NODEID": "3", "SLURM_NNODES": "4"}, ("3", 4)),
        ({"NODE_RANK": "1", "NNODES": "2", "SLURM_NODEID": "9"}, ("1", 2)),
        ({"PET_NODE_RANK": "02", "PET_NNODES": "1:4"}, ("2", 4)),
        ({"JOB_COMPLETION_INDEX": "5"}, ("5", None)),
        ({"NODE_RANK": "head"}, (None, None)),
    ],
)
def test_node_is_known_from_the_environment(env: dict[str, str], node: tuple[str | None, int | None]) -> None:
    assert identity.node(env)[:2] == node


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
