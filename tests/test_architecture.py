"""ARCHITECTURE.md is true: its tree names every folder that holds tracked files, and no other."""

import re
import subprocess
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[1]
BELOW_TESTS = "tests/"  # mirrors of the packages, which need no line each
TREE = re.search(r"^```text\n(.*?)^```$", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE | re.DOTALL)


def folders_of_the_tree() -> set[str]:
    assert TREE
    above: list[str] = []
    found = set()
    for line in TREE[1].splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        above = [*above[:depth], line.split()[0].rstrip("/")]
        found.add("/".join(above))
    return found


def test_the_tree_names_every_folder_and_no_other() -> None:
    listing = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout")
    tracked = {str(up) for name in listing.stdout.split() for up in PurePosixPath(name).parents} - {
        ".",
        ".ci",
    }
    tree = folders_of_the_tree()
    assert sorted(folder for folder in tracked - tree if not folder.startswith(BELOW_TESTS)) == []
    assert sorted(tree - tracked) == []
