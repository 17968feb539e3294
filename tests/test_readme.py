"""The README is true: its commands run, in order, and its tree is the tree."""

import os
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a user has before them: the tracked files, and nothing that a test wrote."""
    folder = tmp_path_factory.mktemp("clone")
    listing = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout")
    names = listing.stdout.decode().rstrip("\0").split("\0")
    subprocess.run(["cp", "-P", "--parents", "-t", folder, *names], cwd=ROOT, check=True)
    return folder


def test_the_tour_runs_from_top_to_bottom(clone: Path) -> None:
    """Every bash block in one shell, then every python block, as a reader would paste them."""
    tools = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(clone / "cache")}
    shell = ["bash", "-euo", "pipefail", "-c", "\n".join(blocks("bash"))]
    tour = subprocess.run(shell, cwd=clone, env=env, capture_output=True, text=True, check=False)
    assert tour.returncode == 0, tour.stdout[-2000:] + tour.stderr[-4000:]
    script = [sys.executable, "-c", "\n".join(blocks("python"))]
    python = subprocess.run(script, cwd=clone, env=env, capture_output=True, text=True, check=False)
    assert python.returncode == 0, python.stderr


def lines_of_the_tree() -> list[str]:
    """The paths of the tree at the end of the README: folders by indentation, `*` for files of one kind."""
    (tree,) = blocks("text")[-1:]
    paths: list[str] = []
    above: list[str] = []
    for line in tree.splitlines():
        name = line.split()[0] if line.strip() else ""
        depth = (len(line) - len(line.lstrip())) // 2
        above = [*above[:depth], name]
        if name and not name.endswith("/"):
            paths.append("".join(above))
    return paths


def test_every_tracked_file_has_its_line_in_the_tree_and_every_line_its_file() -> None:
    listing = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout")
    tracked, tree = listing.stdout.split(), lines_of_the_tree()
    assert [path for path in tracked if not any(fnmatch(path, line) for line in tree)] == []
    assert [line for line in tree if not any(fnmatch(path, line) for path in tracked)] == []


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []
