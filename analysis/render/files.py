"""Bytes -> files, each whole or not at all; and a page -> the page itself, or its panels as pictures.

Only what gputel wrote itself is overwritten: each kind of file has a mark by which it is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from gputel.analysis import progress
from gputel.analysis.document import Document, Panel
from gputel.analysis.render.style import LOOKS, PictureLook
from gputel.telemetry.errors import GputelError, reason
from gputel.telemetry.file_names import file_names
from gputel.telemetry.whole_files import Content, write_whole

PICTURES = ("png", "svg", "pdf")
KINDS = ("html", *PICTURES)
NO_TABLES: Mapping[str, str] = MappingProxyType({})
PICTURE_MARKS = (b"Software\0gputel", b"<dc:title>gputel</dc:title>", b"/Creator (gputel)")


class File(NamedTuple):
    """`is_ours` says of a file that is there already whether gputel wrote it; None where no mark can tell."""

    path: Path
    content: Content
    is_ours: Callable[[Path], bool] | None = None


def begins_with(mark: bytes) -> Callable[[Path], bool]:
    """Knows a file by its first bytes."""

    def is_ours(path: Path) -> bool:
        try:
            with path.open("rb") as file:
                return file.read(len(mark)) == mark
        except OSError:
            return False

    return is_ours


def write(planned: Sequence[File], *, force: bool = False) -> list[Path]:
    """Writes all files, or none where one of them is not gputel's; `force` overwrites whatever is there."""
    from polars.exceptions import PolarsError

    for path, _, is_ours in planned:
        refuse_others(path, is_ours, force=force)
    for path, content, _ in planned:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, content)
        except (OSError, PolarsError) as error:  # polars has errors of its own for a full disk
            fault = f"cannot be written: {reason(error)}"
            raise GputelError(str(path), fault, "choose another path") from error
    return [path for path, _, _ in planned]


def refuse_others(path: Path, is_ours: Callable[[Path], bool] | None = None, *, force: bool) -> None:
    """Raises GputelError for a file that gputel did not write, and, forced or not, for what is no file."""
    if path.exists() and not path.is_file():
        raise GputelError(str(path), "is a folder, a pipe or a device", "choose another path")
    if path.exists() and not force and not (is_ours and is_ours(path)):
        fault = "was not written by gputel" if is_ours else "is there already"
        raise GputelError(str(path), fault, "choose another path, or --force it")


def check(
    kinds: Sequence[str], out: Path, name: str, tables: Mapping[str, str] = NO_TABLES, *, force: bool = False
) -> None:
    """Refuses before any work what would be refused after it, as far as the names are known then.

    `tables` are what else is to be written: each kind with the ending by which `out` may name its one file, or "".
    """
    is_file = _names_a_file(out, kinds, tables)
    if not is_file and out.is_file():
        raise GputelError(
            str(out), "is a file, and not one that this would write", "name a folder", exit_code=2
        )
    if "html" in kinds:
        refuse_others(out if is_file else out / f"{name}.html", _is_ours, force=force)


def write_page(
    page: Document,
    kinds: Sequence[str],
    out: Path,
    name: str,
    look: PictureLook = LOOKS["paper"],
    *,
    force: bool = False,
) -> list[Path]:
    """`out` is a folder, or a file where one kind is asked for: then that holds the page, or all of its panels."""
    is_file = _names_a_file(out, kinds)
    return write(
        [file for kind in kinds for file in _files(page, kind, out, name, is_file, look)], force=force
    )


def _names_a_file(out: Path, kinds: Sequence[str], tables: Mapping[str, str] = NO_TABLES) -> bool:
    ending = out.suffix.lstrip(".").lower()
    if out.is_dir() or not ending or ending not in (*KINDS, *tables.values()):
        return False
    if [*kinds, *tables.values()] != [ending]:
        asked = " ".join(f"--{kind}" for kind in (*kinds, *tables))
        raise GputelError(str(out), f"is one file, and {asked} was asked for", "name a folder", exit_code=2)
    return True


def _files(
    page: Document, kind: str, out: Path, name: str, is_file: bool, look: PictureLook
) -> Iterator[File]:
    if kind == "html":
        from gputel.analysis.render import html as pages

        yield File(out if is_file else out / f"{name}.html", pages.html(page), _is_ours)
        return
    from gputel.analysis.render import picture

    panels = _chosen(page, kind, look.panels)
    if is_file:
        yield File(out, picture.drawn(panels, kind, page, look), _is_ours)
        return
    stems = file_names([panel.name for panel in panels], "panel")
    for panel, stem in progress.each([*zip(panels, stems, strict=True)], "drawing"):
        yield File(out / f"{name}-{stem}.{kind}", picture.drawn([panel], kind, page, look), _is_ours)


def _chosen(page: Document, kind: str, names: Sequence[str]) -> list[Panel]:
    panels = list(page.panels())
    if not panels:
        raise GputelError(f"--{kind}", "there is nothing to draw", "see what was read: --json")
    unknown = set(names).difference(panel.name for panel in panels)
    if unknown:
        there = ", ".join(dict.fromkeys(panel.name for panel in panels))
        raise GputelError(
            "--panel", f"no panel is called {', '.join(sorted(unknown))}", f"there is {there}", exit_code=2
        )
    return [panel for panel in panels if not names or panel.name in names]


def _is_ours(path: Path) -> bool:
    """Whether gputel wrote a file, by what a page and each kind of picture say of their maker."""
    from gputel.analysis.render import html

    try:
        content = path.read_bytes()
    except OSError:
        return False
    return html.is_ours(content) or any(mark in content for mark in PICTURE_MARKS)
