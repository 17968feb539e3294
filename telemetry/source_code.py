"""The state of the code: uncommitted changes and the files that the command names -> `source/` in the run folder.

A process of its own saves them once the command runs, since a large diff takes seconds to mask. Everything is
bounded, and masked line by line; files with names of secrets are never read.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from gputel.telemetry import git
from gputel.telemetry.characters import parse_json
from gputel.telemetry.file_names import file_names
from gputel.telemetry.own_files import is_foreign, is_inside, read_own
from gputel.telemetry.process import spawn
from gputel.telemetry.secret_names import is_certain, is_secret_name
from gputel.telemetry.secrets import MASK, mask

FOLDER, DIFF, STAT, UNTRACKED, CONTENTS = "source", "diff.patch", "diff.stat", "untracked.txt", "source.json"
KEYS = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
CODE = frozenset(".py .sh .md .c .cc .cpp .cu .cuh .h .hpp .rs .go .js .ts".split())
ENDINGS = frozenset({".yaml", ".yml", ".json", ".toml", ".py", ".sh", ".cfg", ".ini"})
LARGEST_DIFF, LARGEST_FILE, LARGEST_FILES, LARGEST_NAMES = 1 << 20, 256 << 10, 1 << 20, 64 << 10
SSH_KEYS = frozenset({"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"})
CPU_S, GIT_S = 20, 10.0
DIFF_WORDS = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short", *git.CHANGES)
SCHEMA = 1


class LeftOut(NamedTuple):
    """A file that was not saved, and why."""

    name: str
    why: str


def start(segment: Path, argv: Sequence[str], cwd: Path) -> int:
    """Forks a process that saves the source into the segment, and returns its process id."""
    spawn.flush()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setpgid(0, 0)
        spawn.keep_only(set())
        os.nice(19)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
        save(segment, argv, cwd)
    finally:
        os._exit(0)


def save(segment: Path, argv: Sequence[str], cwd: Path) -> None:
    """Writes `source/`, which appears when it is whole; outside a repository only if the command names files."""
    draft = segment / f".{FOLDER}.{os.urandom(4).hex()}.part"
    draft.mkdir()
    try:
        left_out: list[LeftOut] = []
        repository = git.repository(cwd)
        diff = _save_diff(draft, repository, left_out) if repository else None
        files = _save_files(draft, _named(argv, cwd), cwd, repository.top if repository else cwd, left_out)
        if diff is None and not (files or left_out):
            return
        contents = {
            "schema": SCHEMA,
            "diff": diff,
            "files": files,
            "left_out": [each._asdict() for each in left_out],
        }
        (draft / CONTENTS).write_text(json.dumps(contents, indent=1))
        draft.rename(segment / FOLDER)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def describe(segment: Path) -> dict[str, Any]:
    """The saved `source.json` of a segment; empty where there is none, or none that can be read."""
    path = segment / FOLDER / CONTENTS
    if is_foreign(path.parent, folder=True):
        return {}
    try:
        contents = parse_json(read_own(path))
    except (OSError, ValueError):
        return {}
    return contents if isinstance(contents, dict) else {}


def is_secret_file(name: str) -> bool:
    """Whether a file has a name of secrets: `.env`, `prod.env`, `credentials.json`; `secrets.py` is code."""
    path = Path(name)
    if path.name.startswith(".env") or path.suffix in (".env", ".pem", ".key"):
        return True
    is_secret = path.stem in SSH_KEYS or is_certain(path.stem) or is_secret_name(path.stem)
    return path.suffix not in CODE and is_secret


def _save_diff(folder: Path, repository: git.Repository, left_out: list[LeftOut]) -> str | None:
    """Saves the uncommitted changes and the names of untracked files.

    Returns the digest of the changes, "" if there are none, None if they are not known or not saved.
    """
    names = repository.ask(
        "ls-files", "--others", "--exclude-standard", "--directory", most=LARGEST_NAMES, seconds=GIT_S
    )
    if names:
        ours = os.path.relpath(folder.parent, repository.folder)
        shown = names[:LARGEST_NAMES].decode(errors="replace").splitlines(keepends=True)
        kept = [mask(name) for name in shown if not f"{name.strip().rstrip('/')}/".startswith(f"{ours}/")]
        if kept:
            (folder / UNTRACKED).write_text("".join(kept))
        if len(names) > LARGEST_NAMES:
            left_out.append(LeftOut(UNTRACKED, f"cut at {LARGEST_NAMES >> 10} KiB"))
    diff = repository.ask(*DIFF_WORDS, "HEAD", most=LARGEST_DIFF, seconds=GIT_S)
    if not diff:
        return None if diff is None else ""
    if repository.is_filtered:
        left_out.append(
            LeftOut("filters", "the repository's own are not run: a filtered file may look changed")
        )
    if len(diff) > LARGEST_DIFF:
        left_out.append(LeftOut(DIFF, f"over {LARGEST_DIFF >> 20} MiB"))
        counts = repository.ask(*DIFF_WORDS, "--stat", "HEAD", most=LARGEST_NAMES, seconds=GIT_S) or b""
        (folder / STAT).write_text(mask(counts[:LARGEST_NAMES].decode(errors="replace")))
        return None
    text = _masked("".join(_without_secrets(diff.decode(errors="replace"), left_out)))
    (folder / DIFF).write_text(text)
    return sha256(text.encode()).hexdigest()


def _without_secrets(diff: str, left_out: list[LeftOut]) -> Iterator[str]:
    """The lines of a diff, without the changes of files with names of secrets."""
    leaves_out = False
    for line in diff.splitlines(keepends=True):
        if line.startswith("diff --git "):
            name = line.rstrip().rpartition(" b/")[2].rstrip('"')
            leaves_out = is_secret_file(name)
            if leaves_out:
                left_out.append(LeftOut(name, "its name is that of a file of secrets"))
        if not leaves_out:
            yield line


def _masked(text: str) -> str:
    """Masks line by line, which takes a time in proportion to the text; a private key is one piece."""
    without_keys = KEYS.sub(rf"\1{MASK}\2", text)
    return "".join(mask(line) for line in without_keys.splitlines(keepends=True))


def _save_files(
    folder: Path, names: Iterable[str], cwd: Path, top: Path, left_out: list[LeftOut]
) -> list[dict[str, str]]:
    """Saves the files that the command names, masked; returns what each was called and where its text lies."""
    named = list(dict.fromkeys(names))
    room, saved = LARGEST_FILES, []
    for name, place in zip(named, file_names([name.replace("/", "-") for name in named]), strict=True):
        if is_secret_file(name) or is_secret_file(str((cwd / name).resolve())):
            left_out.append(LeftOut(name, "its name is that of a file of secrets"))
            continue
        if _leads_out(cwd / name, top):
            left_out.append(LeftOut(name, "a link out of its folder"))
            continue
        content = _content(cwd / name, min(LARGEST_FILE, room))
        if content is None:
            left_out.append(
                LeftOut(name, f"over {LARGEST_FILE >> 10} KiB, or {LARGEST_FILES >> 20} MiB in all")
            )
            continue
        room -= len(content)
        text = _masked(content.decode(errors="replace"))
        (folder / "files").mkdir(exist_ok=True)
        (folder / "files" / place).write_text(text)
        saved.append(
            {"name": mask(name), "file": f"files/{place}", "sha256": sha256(text.encode()).hexdigest()}
        )
    return saved


def _named(argv: Sequence[str], cwd: Path) -> Iterator[str]:
    """The files among the command's words, also behind `--config=`."""
    for word in argv:
        name = word.partition("=")[2] if word.startswith("-") and "=" in word else word
        with contextlib.suppress(OSError, ValueError):
            if Path(name).suffix.lower() in ENDINGS and stat.S_ISREG((cwd / name).stat().st_mode):
                yield name


def _leads_out(path: Path, top: Path) -> bool:
    """Whether a file is a link to what its author could not have put beside it, such as `/proc/self/environ`."""
    if Path(os.path.normpath(path)).is_relative_to(top):
        return not is_inside(path, top.resolve())
    return is_foreign(path)


def _content(path: Path, most: int) -> bytes | None:
    """The bytes of a file; None of one that is larger, or cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError:
        return None
    return content if len(content) <= most else None
