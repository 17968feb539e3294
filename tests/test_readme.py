"""The README and the pages are true: commands run, examples show what is printed now, links lead somewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
PAGES = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")))
LONGEST_README = 200
LARGEST_PICTURE = 250_000


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


@pytest.mark.long
def test_tour_runs_from_top_to_bottom(clone: Path) -> None:
    """Every bash block in one shell, then every python block, as a reader would paste them."""
    tools = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(clone / "cache")}
    shell = ["bash", "-euo", "pipefail", "-c", "\n".join(blocks("bash"))]
    tour = subprocess.run(shell, cwd=clone, env=env, capture_output=True, text=True, check=False)
    assert tour.returncode == 0, tour.stdout[-2000:] + tour.stderr[-4000:]
    script = [sys.executable, "-c", "\n".join(blocks("python"))]
    python = subprocess.run(script, cwd=clone, env=env, capture_output=True, text=True, check=False)
    assert python.returncode == 0, python.stderr


@pytest.mark.long
def test_examples_show_what_the_commands_print_now() -> None:
    """`python docs/examples.py` writes them anew."""
    script = [sys.executable, str(ROOT / "docs" / "examples.py"), "--check"]
    check = subprocess.run(script, capture_output=True, text=True, check=False)
    assert check.returncode == 0, check.stdout + check.stderr


def test_readme_is_short_and_its_pictures_are_small() -> None:
    pictures = [ROOT / name for name in re.findall(r"!\[[^]]*\]\(([^)]+)\)", README)]
    assert len(pictures) >= 2
    assert [picture.name for picture in pictures if picture.stat().st_size > LARGEST_PICTURE] == []
    assert len(README.splitlines()) <= LONGEST_README


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def anchors(page: Path) -> set[str]:
    """The names of a page's headings in addresses: small letters, dashes for spaces, no other signs."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_heading_that_a_page_links_to_exists(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*\.md|)#([^)]+)\)", page.read_text())
    targets = [(page.parent / file if file else page, anchor) for file, anchor in links]
    assert [(target.name, anchor) for target, anchor in targets if anchor not in anchors(target)] == []
