"""A page -> files: the page itself, or its panels as pictures. Only what gputel wrote itself is overwritten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from gputel.analysis.document import Page
from gputel.analysis.render import whole_file
from gputel.telemetry.errors import GputelError
from gputel.telemetry.file_names import file_names

PICTURES = ("png", "svg", "pdf")
KINDS = ("html", *PICTURES)
NO_TABLES: Mapping[str, str] = MappingProxyType({})
PICTURE_MARKS = (b"Software\0gputel", b"<dc:title>gputel</dc:title>", b"/Creator (gputel)")


class Draft(NamedTuple):
    path: Path
    content: bytes


def check(
    kinds: Sequence[str], out: Path, name: str, tables: Mapping[str, str] = NO_TABLES, *, force: bool = False
) -> None:
    """Refuses before any work what would be refused after it, as far as the names are known then.

    `tables` are what else is to be written: each kind with the ending by which `out` may name its one file, or "".
    """
    one = _names_a_file(out, kinds, tables)
    if not one and out.is_file():
        raise GputelError(
            str(out), "is a file, and not one that this would write", "name a folder", exit_code=2
        )
    page = [out] if one else [out / f"{name}.html"]
    _refuse_others(page if "html" in kinds else [], force=force)


def write(page: Page, kinds: Sequence[str], out: Path, name: str, *, force: bool = False) -> list[Path]:
    """`out` is a folder, or a file where one kind is asked for: then that holds the page, or all of its panels."""
    one = _names_a_file(out, kinds)
    drafts = [made for kind in kinds for made in _drafts(page, kind, out, name, one)]
    _refuse_others([path for path, _ in drafts], force=force)
    try:
        for path, content in drafts:
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file.replacing(path) as draft:
                draft.write_bytes(content)
    except OSError as error:
        fault = f"cannot write here: {error.strerror}"
        raise GputelError(str(out), fault, "choose another --out") from error
    return [path for path, _ in drafts]


def _refuse_others(paths: Sequence[Path], *, force: bool) -> None:
    for path in paths:
        if path.exists() and not force and not _is_ours(path):
            raise GputelError(str(path), "was not written by gputel", "choose another --out, or --force it")


def _names_a_file(out: Path, kinds: Sequence[str], tables: Mapping[str, str] = NO_TABLES) -> bool:
    ending = out.suffix.lstrip(".").lower()
    if out.is_dir() or not ending or ending not in (*KINDS, *tables.values()):
        return False
    if [*kinds, *tables.values()] != [ending]:
        asked = " ".join(f"--{kind}" for kind in (*kinds, *tables))
        raise GputelError(str(out), f"is one file, and {asked} was asked for", "name a folder", exit_code=2)
    return True


def _drafts(page: Page, kind: str, out: Path, name: str, one: bool) -> Iterator[Draft]:
    if kind == "html":
        from gputel.analysis.render import page as pages

        yield Draft(out if one else out / f"{name}.html", pages.html(page))
        return
    from gputel.analysis.render import picture

    panels = list(page.panels())
    if not panels:
        raise GputelError(f"--{kind}", "there is nothing to draw", "see what was read: --json")
    if one:
        yield Draft(out, picture.drawn(panels, kind, page))
        return
    for panel, own in zip(panels, file_names([panel.name for panel in panels], "panel"), strict=True):
        yield Draft(out / f"{name}-{own}.{kind}", picture.drawn([panel], kind, page))


def _is_ours(path: Path) -> bool:
    """By what a page and each kind of picture say of their maker."""
    from gputel.analysis.render import page

    try:
        content = path.read_bytes()
    except OSError:
        return False
    return page.is_ours(content) or any(mark in content for mark in PICTURE_MARKS)
