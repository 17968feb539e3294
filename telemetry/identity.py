"""The facts of run.json: command, host, git, packages, environment, with secrets masked.

Uses no network, and runs no other program than git, for two seconds at most each time.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from gputel.telemetry.clock import boot_name
from gputel.telemetry.git import CHANGES, Repository
from gputel.telemetry.git import repository as git_repository
from gputel.telemetry.secrets import mask, mask_argv, mask_value

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
    ("SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES", "skypilot"),
    ("JOB_COMPLETION_INDEX", "JOB_COMPLETIONS", "kubernetes"),
)


LAUNCHERS = frozenset("torchrun accelerate deepspeed fabric lightning colossalai composer msrun".split())
LAUNCHER_MODULES = (
    "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.", "deepspeed.launcher.",
    "lightning.fabric.cli", "composer.cli",
)  # fmt: skip
LAUNCHER_OPTIONS = (("node_rank", "machine_rank"), ("nnodes", "num_machines", "num_nodes"))
"""A node's rank, and how many there are, of torchrun, accelerate and others; some write them with dashes."""
BEFORE_SCRIPT = ("m", "module", "no_python", "standalone")
"""Options of launchers without a value, after which the script's name may follow."""
ADDRESS_OPTIONS = ("master_addr", "master_port", "rdzv_endpoint", "main_process_ip", "main_process_port")


def node(env: Mapping[str, str], argv: Sequence[str] = ()) -> Node:
    """This node's rank, from the environment: a rank with a node count above one, or a rank without a count.

    Else from the options of a launcher; several nodes of which none has a rank there find it among themselves.
    """
    for rank_name, count_name, source in NODE_VARIABLES:
        rank, count = env.get(rank_name, ""), _number(env.get(count_name, ""))
        if rank.isdecimal():
            return Node(None, count, source) if count == 1 else Node(str(int(rank)), count, source)
    return _of_launcher(dict(_options(_launcher_words(argv))))


def _of_launcher(options: Mapping[str, str]) -> Node:
    rank, nodes = (
        next((options[name] for name in names if name in options), "") for names in LAUNCHER_OPTIONS
    )
    count = _number(nodes)
    if count is None:
        return Node(None, None, None)
    return Node(str(int(rank)) if count > 1 and rank.isdecimal() else None, count, "command")


def _launcher_words(argv: Sequence[str]) -> Sequence[str]:
    """The options that a launcher is given: those behind the script's name are the script's own."""
    start = next((at for at, word in enumerate(argv) if _is_launcher(word) or _is_script(word)), len(argv))
    if start == len(argv) or _is_script(argv[start]):
        return ()
    subcommand = argv[start + 1 : start + 2] in (["launch"], ["run"])
    words = argv[start + 1 + subcommand :]
    return words[: next((at for at in range(len(words)) if _ends_options(words, at)), len(words))]


def _is_launcher(word: str) -> bool:
    return word.rpartition("/")[2] in LAUNCHERS or word.startswith(LAUNCHER_MODULES)


def _is_script(word: str) -> bool:
    return word.endswith(".py") and not word.startswith("-")


def _ends_options(words: Sequence[str], at: int) -> bool:
    """Whether a word is the script's name: a Python file, or no value of the option before it."""
    word, before = words[at], words[at - 1] if at else ""
    if word.startswith("-"):
        return word == "--"
    takes_value = before.startswith("-") and "=" not in before
    return _is_script(word) or not takes_value or before.lstrip("-").replace("-", "_") in BEFORE_SCRIPT


def without_addresses(argv: Sequence[str]) -> list[str]:
    """The command without the addresses of its first node, which change with the machine."""
    left, is_value = [], False
    for word in argv:
        name, given, _ = word.removeprefix("--").partition("=")
        is_address = word.startswith("--") and name.replace("-", "_") in ADDRESS_OPTIONS
        if not is_address and not is_value:
            left.append(word)
        is_value = is_address and not given
    return left


def _options(argv: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The long options of a command, by names with underscores: `--node-rank 3`, `--node_rank=3`."""
    for word, following in pairwise([*argv, ""]):
        name, given, value = word.removeprefix("--").partition("=")
        if word.startswith("--"):
            yield name.replace("-", "_"), value if given else following


def facts(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    name: str,
    tags: Mapping[str, str],
    price: float | None = None,
    budget: float | None = None,
) -> dict[str, object]:
    """The content of run.json before the command starts; `price` is dollars per GPU hour, `budget` dollars."""
    this_node = node(env, argv)
    return {
        "run": mask(name),
        "argv": mask_argv(argv),
        "cwd": str(cwd),
        "git": git(cwd),
        "host": {
            "name": socket.gethostname(),
            "cpus": os.cpu_count(),
            "kernel": platform.release(),
            "boot": boot_name(),
        },
        "node_rank": None if this_node.rank is None else int(this_node.rank),
        "nodes": this_node.nodes,
        "packages": packages(argv[0] if argv else None),
        "env": environment(env),
        "tags": {key: mask_value(key, value) for key, value in tags.items()},
        "price": price,
        "budget": budget,
        "gpus": [],
        "simulated": None,
        "sampling": None,
        "started": None,
        "ended": None,
        "exit_code": None,
    }


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that explain a difference between runs, masked."""
    names = (name for name in sorted(env) if name.startswith(KEPT) or name in KEPT_EXACTLY)
    return {name: mask_value(name, env[name]) for name in names}


def git(cwd: Path) -> dict[str, object] | None:
    """Commit, branch, uncommitted changes and remote of the working folder; None outside a repository."""
    repository = git_repository(cwd)
    commit = repository and repository.ask("rev-parse", "HEAD")
    if not repository or not commit:
        return None
    branch = repository.ask("branch", "--show-current")
    remote = repository.ask("config", "--get", "remote.origin.url")
    return {
        "commit": _text(commit),
        "branch": _text(branch) or None,
        "dirty": _is_changed(repository),
        "remote": mask(_text(remote)) or None,
    }


def _is_changed(repository: Repository) -> bool | None:
    """Whether tracked files differ from the commit; a difference counts only if no filter was left out."""
    changes = repository.ask("status", "--porcelain", "--untracked-files=no", *CHANGES)
    if changes is None or (changes and repository.is_filtered):
        return None
    return bool(changes)


def _text(answer: bytes | None) -> str:
    return (answer or b"").decode(errors="replace").strip()


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
    return int(last) if last.isdecimal() else None
