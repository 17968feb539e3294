"""Writes what commands print into the README and the pages: `python docs/examples.py`; `--check` only compares.

An example is a block of `text` that begins with `$ gputel`. If its last line is `...`, it keeps as many lines as it
has now. Blocks of `console` show one run on one machine, so they are never compared; `--recorded` records that run
anew (a minute) and writes those of one command about it.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
PAGES = (ROOT / "README.md", *sorted(DOCS.glob("*.md")))
BLOCK = re.compile(r"^```text\n(\$ gputel .*?)^```$", re.MULTILINE | re.DOTALL)
RECORDED = re.compile(
    r"^```console\n(\$ gputel (?:report|info|tail|export) (?!s3:|--from)(?:(?!^\$ ).*\n)+?)^```$",
    re.MULTILINE,
)
CUT = "..."


def main() -> int:
    if "--recorded" in sys.argv:
        return rewrite_recorded()
    wrong = 0
    for page in PAGES:
        before = page.read_text()
        after = BLOCK.sub(lambda block: f"```text\n{example(block[1])}```", before)
        wrong += before != after
        if "--check" in sys.argv:
            sys.stdout.writelines(differences(page.name, before, after))
        else:
            page.write_text(after)
    return min(wrong, 1) if "--check" in sys.argv else 0


def rewrite_recorded() -> int:
    """Writes the blocks about the recorded run."""
    from picture import record

    with tempfile.TemporaryDirectory() as name:
        record(Path(name))
        for page in PAGES:
            before = page.read_text()
            page.write_text(
                RECORDED.sub(lambda block: f"```console\n{example(block[1], Path(name))}```", before)
            )
    return 0


def example(block: str, folder: Path | None = None) -> str:
    """The block's command with what it prints now."""
    command, *shown = block.splitlines()
    lines = [line.rstrip() for line in output(command.removeprefix("$ "), folder).splitlines()]
    if shown and shown[-1] == CUT:
        lines = [*lines[: len(shown) - 1], CUT]
    return "\n".join((command, *lines, ""))


def output(command: str, where: Path | None = None) -> str:
    """Standard output and error, in the folder or in one that holds the sample logs alone."""
    with tempfile.TemporaryDirectory() as empty:
        folder = where or Path(empty)
        if not where:
            (folder / "sample_logs").symlink_to(ROOT / "sample_logs")
        tools = Path(sys.executable).parent
        env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
        env.pop("COLUMNS", None)
        env["XDG_CACHE_HOME"] = empty
        shell = ("bash", "-c", command)
        return subprocess.run(
            shell,
            cwd=folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        ).stdout


def differences(name: str, before: str, after: str) -> Iterator[str]:
    lines = before.splitlines(keepends=True), after.splitlines(keepends=True)
    return unified_diff(*lines, f"{name}: shown", f"{name}: printed now")


if __name__ == "__main__":
    sys.exit(main())
