"""Names that can be searched for: no class has another's name, no function is called `of`, no file a participle."""

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("gputel", "telemetry", "analysis", "trainer")
PARTICIPLES = {"told", "kept", "printed", "written", "unclosed", "recorded", "reported", "followed", "served"}


def sources() -> Iterator[Path]:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            if not any(above.is_symlink() for above in path.parents):
                yield path


@cache
def statements() -> list[ast.stmt]:
    """What every file defines at its top level, and what its classes define."""
    tops = [node for path in sources() for node in ast.parse(path.read_text()).body]
    return [*tops, *(node for top in tops if isinstance(top, ast.ClassDef) for node in top.body)]


def test_no_class_name_stands_twice() -> None:
    classes = Counter(node.name for node in statements() if isinstance(node, ast.ClassDef))
    assert [name for name, count in classes.items() if count > 1] == []


def test_no_function_is_called_of() -> None:
    assert "of" not in {node.name for node in statements() if isinstance(node, ast.FunctionDef)}


def test_no_file_is_named_by_a_participle() -> None:
    assert [str(path.relative_to(ROOT)) for path in sources() if path.stem in PARTICIPLES] == []
