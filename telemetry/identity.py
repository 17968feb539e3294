"""The facts of run.json: command, host, git, packages, environment, with secrets masked.

Uses no network, and runs no other program than git, for two seconds at most.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gputel.telemetry.secrets import mask, mask_argv, mask_value

BOOT = Path("/proc/sys/kernel/random/boot_id")
KEPT = ("NCCL_", "CUDA_", "PYTORCH_", "TORCH_", "NVIDIA_", "OMP_", "SLURM_", "PET_", "GLOO_", "UCX_", "FI_")
KEPT_EXACTLY = frozenset(
    "MASTER_ADDR MASTER_PORT NNODES NODE_RANK GROUP_RANK RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE "
    "JOB_COMPLETION_INDEX HOSTNAME VIRTUAL_ENV CONDA_DEFAULT_ENV".split()
)


class Node(NamedTuple):
    """This machine's rank among the nodes of a job; `rank` is None if it is the only one."""

    rank: str | None
    nodes: int | None
    source: str | None


NODE_VARIABLES = (  # rank, number of nodes, what sets them; the first that is set decides
    ("NODE_RANK", "NNODES", "environment"),
    ("PET_NODE_RANK", "PET_NNODES", "torchrun"),
    ("GROUP_RANK", "GROUP_WORLD_SIZE", "torchrun"),
    ("SLURM_NODEID", "SLURM_NNODES", "slurm"),
    ("JOB_COMPLETION_INDEX", "JOB_COMPLETIONS", "kubernetes"),
)


def node(env: Mapping[str, str]) -> Node:
    """This node's rank, from the environment: a rank with a node count above one, or a rank without a count."""
    for rank_name, count_name, source in NODE_VARIABLES:
        rank, count = env.get(rank_name, ""), _number(env.get(count_name, ""))
        if rank.isdigit():
            return Node(None, count, source) if count == 1 else Node(str(int(rank)), count, source)
    return Node(None, None, None)


def facts(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    name: str,
    tags: Mapping[str, str],
) -> dict[str, object]:
    """The content of run.json before the command starts."""
    this_node = node(env)
    return {
        "run": mask(name),
        "argv": mask_argv(argv),
        "cwd": str(cwd),
        "git": git(cwd),
        "host": {
            "name": socket.gethostname(),
            "cpus": os.cpu_count(),
            "kernel": platform.release(),
            "boot": boot(),
        },
        "node_rank": None if this_node.rank is None else int(this_node.rank),
        "nodes": this_node.nodes,
        "packages": packages(argv[0] if argv else None),
        "env": environment(env),
        "tags": {key: mask_value(key, value) for key, value in tags.items()},
        "gpus": [],
        "simulated": None,
        "sampling": None,
        "started": None,
        "ended": None,
        "exit_code": None,
    }


def boot() -> str | None:
    """The kernel's name for the time since the machine was started; clocks are compared within one."""
    try:
        return BOOT.read_text().strip()
    except OSError:
        return None


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that explain a difference between runs, masked."""
    names = (name for name in sorted(env) if name.startswith(KEPT) or name in KEPT_EXACTLY)
    return {name: mask_value(name, env[name]) for name in names}


def git(cwd: Path) -> dict[str, object] | None:
    """Commit, branch, uncommitted changes and remote of the working folder; None outside a repository."""
    commit = _git(cwd, "rev-parse", "HEAD")
    if commit is None:
        return None
    changes = _git(cwd, "status", "--porcelain", "--untracked-files=no")
    branch = _git(cwd, "branch", "--show-current")
    remote = _git(cwd, "config", "--get", "remote.origin.url")
    return {
        "commit": commit,
        "branch": branch or None,
        "dirty": None if changes is None else bool(changes),
        "remote": mask(remote) if remote else None,
    }


def _git(cwd: Path, *arguments: str) -> str | None:
    quiet = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        answer = subprocess.run(
            ["git", "-C", str(cwd), *arguments],
            capture_output=True,
            text=True,
            timeout=2,
            env=quiet,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def packages(program: str | None) -> dict[str, str]:
    """Package versions of the command's interpreter, read from folder names; starts no process."""
    site = _site_packages(program)
    versions: dict[str, str] = {}
    for info in site.glob("*.dist-info"):
        name, _, version = info.name.removesuffix(".dist-info").partition("-")
        versions.setdefault(name.replace("_", "-").lower(), version)
    return {"python": site.parent.name.removeprefix("python"), **dict(sorted(versions.items()))}


def _site_packages(program: str | None) -> Path:
    """The site-packages beside the program's `bin/`, as venv and conda lay them out; otherwise gputel's own."""
    executable = shutil.which(program) if program else None
    beside = Path(executable).parent.parent.glob("lib/python3*/site-packages") if executable else iter(())
    return next(beside, Path(sysconfig.get_path("purelib")))


def _number(text: str) -> int | None:
    """The number in `2`; the larger of torchrun's elastic range `1:4`."""
    last = text.rpartition(":")[2]
    return int(last) if last.isdigit() else None
