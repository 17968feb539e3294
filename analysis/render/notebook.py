"""A page as a notebook shows it: whole, in a frame of its own, or panel by panel as pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from gputel.analysis.document import Document, Panel
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from plotly.graph_objects import Figure as PlotlyFigure

HEIGHT = 720


@dataclass(frozen=True)
class PanelPicture:
    """One panel: shown as a picture, or given as a figure of matplotlib or plotly to style and export."""

    panel: Panel
    page: Document

    def matplotlib(self) -> Figure:
        """The picture as a figure of matplotlib."""
        from gputel.analysis.render import picture

        return picture.figure([self.panel], self.page.caution)

    def plotly(self, *, x: str | None = None) -> PlotlyFigure:
        """An interactive figure; `x` names one of the panel's axes, such as `tokens`. Needs `gputel[notebook]`."""
        try:
            from gputel.analysis.render import plotly
        except ImportError as error:
            raise GputelError("plotly", "is not installed", "pip install 'gputel[notebook]'") from error
        return plotly.figure(self.panel, self.page.caution, x)

    def _repr_png_(self) -> bytes:
        from gputel.analysis.render import picture

        return picture.drawn([self.panel], "png", self.page)


class Figures(Mapping[str, PanelPicture]):
    """Panels by name. A notebook shows them all together, as the page that the command writes."""

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
        """The page in a frame: it may run its own script, and reaches nothing of the notebook."""
        frame = 'sandbox="allow-scripts" style="width:100%;border:0"'
        return f'<iframe {frame} height="{HEIGHT}" srcdoc="{escape(self.html())}"></iframe>'
