"""Asks git about a folder, and runs no command that the repository's own configuration names.

`.git/config` of a downloaded folder may name filters, a watcher of files, hooks, helpers of a remote. They are left
out; filters of the user's own configuration, such as those of git-lfs, run.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

HARMLESS = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "safe.bareRepository=explicit",  # a folder of a clone may look like a repository, with a configuration
)
OFFLINE = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}
CHANGES = ("--ignore-submodules=dirty",)
"""Words for `diff` and `status`: a look into a submodule would follow that one's configuration."""
LARGEST = 64 << 10


@dataclass(frozen=True)
class Repository:
    """The repository of a folder; `is_filtered` if filters of its own configuration were left out."""

    folder: Path
    top: Path
    settings: tuple[str, ...]
    is_filtered: bool

    def ask(self, *words: str, most: int = LARGEST, seconds: float = 2.0) -> bytes | None:
        """The output of git, cut after `most` + 1 bytes; None if it fails or takes too long."""
        return _answer(self.folder, self.top, self.settings, words, most, seconds)


def repository(folder: Path) -> Repository | None:
    """The repository that a folder lies in; None outside of one, or if its filters cannot be left out."""
    top = next((parent for parent in (folder, *folder.parents) if os.path.lexists(parent / ".git")), None)
    if top is None:
        return None
    listing = ("config", "--show-scope", "--name-only", "-z", "--list")
    answer = _answer(folder, top, HARMLESS, listing, LARGEST, 2.0)
    if answer is None or len(answer) > LARGEST:
        return None
    scopes_and_names = answer.decode(errors="surrogateescape").split("\0")
    drivers = {
        name.rpartition(".")[0]
        for scope, name in zip(scopes_and_names[::2], scopes_and_names[1::2], strict=False)
        if scope in ("local", "worktree") and name.startswith("filter.")
    }
    if any("=" in driver for driver in drivers):  # cannot be named on git's command line
        return None
    unset = [f"{driver}.{value}" for driver in drivers for value in ("clean=", "process=", "required=false")]
    return Repository(folder, top, (*HARMLESS, *unset), bool(drivers))


def _answer(
    folder: Path, top: Path, settings: tuple[str, ...], words: tuple[str, ...], most: int, seconds: float
) -> bytes | None:
    chosen = [word for setting in settings for word in ("-c", setting)]
    command = ["timeout", f"{seconds:g}", "git", "-C", str(folder), "--no-pager", *chosen, *words]
    environment = {**os.environ, **OFFLINE}
    if "GIT_DIR" not in environment:  # or core.worktree could lead elsewhere
        environment.setdefault("GIT_WORK_TREE", str(top))
    try:
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        ) as process:
            assert process.stdout
            answer = process.stdout.read(most + 1)
            if len(answer) > most:
                process.kill()
                return answer
            return answer if process.wait() == 0 else None
    except OSError:
        return None
