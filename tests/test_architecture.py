"""What the project says of itself is true: ARCHITECTURE.md, the lists of rooms, the rules that the code cites."""

import ast
import re
import subprocess
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
FILE = re.compile(r"`([\w./-]+\.(?:py|md|toml|json|c|js|css|html))`")
CITED = re.compile(r"\brules? (\d+)(?:(?:,| and| to) (\d+))*")
BELOW_TESTS = "tests/"  # mirrors of the packages, which need no line each
TREE = re.search(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def folders_of_the_tree() -> set[str]:
    assert TREE
    above: list[str] = []
    found = set()
    for line in TREE[1].splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        above = [*above[:depth], line.split()[0].rstrip("/")]
        found.add("/".join(above))
    return found


def test_tree_names_every_folder_and_no_other() -> None:
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


def test_every_file_that_the_page_names_exists() -> None:
    named = FILE.findall(PAGE)
    assert len(named) > 40
    assert [name for name in named if "NAME" not in name and not (ROOT / name).is_file()] == []


def test_table_that_a_recipe_names_is_defined_in_a_file_of_that_step() -> None:
    steps = re.findall(r"^\d+\. (.*(?:\n   .*)*)", PAGE, re.MULTILINE)
    named = [(table, step) for step in steps for table in re.findall(r"`([A-Z]{4,})`", step)]
    assert len(named) > 5
    assert [table for table, step in named if not _is_defined(table, FILE.findall(step))] == []


def _is_defined(table: str, files: list[str]) -> bool:
    texts = [(ROOT / name).read_text() for name in files if "NAME" not in name]
    return any(re.search(rf"^{table}\b.* = ", text, re.MULTILINE) for text in texts)


@pytest.mark.parametrize("room", ["analysis", "gputel", "telemetry"])
def test_docstring_of_a_folder_that_lists_files_lists_all_of_them_and_no_other(room: str) -> None:
    for init in (ROOT / room).rglob("__init__.py"):
        tree = ast.parse(init.read_text())
        docstring = ast.get_docstring(tree) or ""
        rows = re.findall(r"^(\w+)/? {2,}\S", docstring, re.MULTILINE)
        files = {path.stem for path in init.parent.glob("*.py")} - {"__init__"}
        there = files | {path.name for path in init.parent.iterdir() if path.is_dir()}
        there |= {node.name for node in ast.walk(tree) if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
        assert set(rows) - there == set(), init
        assert not rows or files - set(re.findall(r"\w+", docstring)) == set(), init


def test_every_rule_that_the_code_cites_is_numbered_on_the_page_of_parse() -> None:
    rules = set(re.findall(r"^(\d+)\. ", (ROOT / "docs" / "parse.md").read_text(), re.MULTILINE))
    cited = {
        number
        for file in (ROOT / "analysis" / "logs").rglob("*.py")
        for match in CITED.finditer(file.read_text().lower())
        for number in re.findall(r"\d+", match[0])
    }
    assert cited
    assert cited <= rules
