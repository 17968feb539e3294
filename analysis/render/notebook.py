"""A page as a notebook shows it: whole, in a frame of its own, or panel by panel as pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from gputel.analysis.document import Document, Panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEIGHT = 720


@dataclass(frozen=True)
class PanelPicture:
    """One panel. `figure()` is matplotlib's, to go on with."""

    panel: Panel
    page: Document

    def figure(self) -> Figure:
        from gputel.analysis.render import picture

        return picture.figure([self.panel], self.page.caution)

    def _repr_png_(self) -> bytes:
        from gputel.analysis.render import picture

        return picture.drawn([self.panel], "png", self.page)


class Figures(Mapping[str, PanelPicture]):
    """By the names of panels; shown inline all together, as the page that the command writes."""

    def __init__(self, page: Document) -> None:
        self.page = page
        self._panels = {panel.name: panel for panel in page.panels()}

    def __repr__(self) -> str:
        return f"<figures {', '.join(self._panels)}>"

    def __getitem__(self, name: str) -> PanelPicture:
        return PanelPicture(self._panels[name], self.page)

    def __iter__(self) -> Iterator[str]:
        return iter(self._panels)

    def __len__(self) -> int:
        return len(self._panels)

    def html(self) -> str:
        """One offline page."""
        from gputel.analysis.render import html

        return html.html(self.page).decode()

    def _repr_html_(self) -> str:
        """The page may run its own script, and reach nothing of the notebook."""
        frame = 'sandbox="allow-scripts" style="width:100%;border:0"'
        return f'<iframe {frame} height="{HEIGHT}" srcdoc="{escape(self.html())}"></iframe>'
