"""No import circle: two files that need each other cannot be read, tested or moved alone.

Every import counts: those inside functions and those for types only, too, since circles hide there.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = {
    "telemetry": "gputel.telemetry",
    "analysis": "gputel.analysis",
    "trainer": "gputel.trainer",
    "gputel": "gputel",
}
FREE_OF_CIRCLES = ("telemetry", "analysis", "trainer", "gputel")

Graph = Mapping[str, frozenset[str]]


def modules(room: Path, package: str) -> dict[str, Path]:
    """Every module of a folder by its name; links to other rooms are passed over."""
    return {
        ".".join([package, *path.relative_to(room).with_suffix("").parts]).removesuffix(".__init__"): path
        for path in sorted(room.rglob("*.py"))
        if path.resolve().is_relative_to(room.resolve())
    }


def imported(name: str, path: Path) -> Iterator[tuple[str, str | None]]:
    """Each import in a file: a module, and a name in it."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*above, *filter(None, [node.module])])
            yield from ((source, alias.name) for alias in node.names)


def graph(known: Mapping[str, Path]) -> Graph:
    """Which of the modules each one imports; a name that is a module itself counts as that module."""
    edges = {}
    for name, path in known.items():
        found = {
            f"{source}.{what}" if f"{source}.{what}" in known else source
            for source, what in imported(name, path)
        }
        edges[name] = frozenset(found & known.keys())
    return edges


def reachable(start: str, edges: Graph) -> set[str]:
    seen: set[str] = set()
    waiting = list(edges[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += edges[name]
    return seen


def circles(edges: Graph) -> set[frozenset[str]]:
    """Strongly connected components: files of which each one needs, in the end, all of the others."""
    reached = {name: reachable(name, edges) for name in edges}
    return {
        frozenset(other for other in reached[name] if name in reached[other])
        for name in edges
        if name in reached[name]
    }


@cache
def whole_package() -> Graph:
    """All rooms in one graph; `import gputel` is no edge of a file inside it."""
    known = {
        name: path for room, package in ROOMS.items() for name, path in modules(ROOT / room, package).items()
    }
    return graph(known)


def room_of(module: str) -> str:
    """The commands and what `import gputel` gives are of the room `gputel`."""
    return next(room for room, package in ROOMS.items() if f"{module}.".startswith(f"{package}."))


@pytest.mark.parametrize("room", FREE_OF_CIRCLES)
def test_room_has_no_import_circle(room: str) -> None:
    found = [sorted(circle) for circle in circles(whole_package()) if room in map(room_of, circle)]
    assert found == []


def test_every_room_is_read() -> None:
    edges = whole_package()
    assert "gputel.telemetry.store.blocks" in edges["gputel.telemetry.store.journal"]
    assert set(map(room_of, edges)) == set(ROOMS)


@pytest.mark.parametrize(
    "back",
    [
        "from room import a",
        "from . import a",
        "from room.a import thing",
        "import room.a",
        "def late():\n    from room.a import thing",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from room.a import thing",
    ],
)
def test_circle_is_found_however_it_is_closed(tmp_path: Path, back: str) -> None:
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "a.py").write_text("from room import b\nthing = 1\n")
    (tmp_path / "b.py").write_text(back)
    (tmp_path / "c.py").write_text("from room import a, b\nimport json\n")
    edges = graph(modules(tmp_path, "room"))
    assert edges["room.c"] == {"room.a", "room.b"}
    assert circles(edges) == {frozenset({"room.a", "room.b"})}
