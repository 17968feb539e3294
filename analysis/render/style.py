"""How everything looks: colors that color-blind people can tell apart (after Okabe and Ito), in light and dark.

The page gets them with its data, the pictures from here: a run has the same color in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

TINTS = {
    "light": ("#0072b2", "#d55e00", "#009e73", "#b8559a", "#2f9fd0", "#c98a00", "#5b5b66", "#7a5c00"),
    "dark": ("#56b4e9", "#ff8f4d", "#2fc79e", "#e39bc4", "#8fb8ff", "#f2c14e", "#b9bcc6", "#d8c06a"),
}
KINDS = {  # what happened, of marks and spans; and the parts of bars: of time, of a GPU's memory
    "light": {
        "train": "#0072b2",
        "eval": "#009e73",
        "checkpoint": "#e69f00",
        "idle": "#9a9aa5",
        "start": "#c9c9d2",
        "fault": "#c8102e",
        "weights": "#0072b2",
        "gradients": "#2f9fd0",
        "optimizer": "#b8559a",
        "activations": "#009e73",
        "logits": "#e69f00",
        "reserve": "#9a9aa5",
        "": "#70707c",
    },
    "dark": {
        "train": "#56b4e9",
        "eval": "#2fc79e",
        "checkpoint": "#f2c14e",
        "idle": "#7d818c",
        "start": "#565a66",
        "fault": "#ff6b7a",
        "weights": "#56b4e9",
        "gradients": "#8fb8ff",
        "optimizer": "#e39bc4",
        "activations": "#2fc79e",
        "logits": "#f2c14e",
        "reserve": "#7d818c",
        "": "#9a9eaa",
    },
}
FAULTS = frozenset(
    "nan oom nccl traceback stop restart resume xid throttle gpu_lost gap disk_full alarm".split()
)
EXTREMES = {"noisy": 0.05, "steady": 0.01, "least": 4}
"""Share of a plot's values at either end that may lie out of sight, so that the rest can be read; and of how many
evaluations the first one may."""
LONG = {"share": 0.75, "times": 3, "least": 3, "letters": 16}
"""A run is long if it is so many times as long as that share of the runs, of so many at least. An axis names it if
its name has at most so many letters."""
LEVEL_NEAR = 1.5  # a plot reaches up to a limit that is so many times as high as its curves
DASHES = ((), (6, 3), (2, 3), (9, 3, 2, 3))
"""Pixels of ink and gap: of the first eight runs, the next eight, and so on."""
HEAT = ("#0b1026", "#1d2f6f", "#155f8c", "#1b8f7f", "#74b84e", "#e5c63c", "#fff7c8")
"""From little to much; its brightness rises all the way, so that it reads in gray too."""


FOR_PAGES = {
    "tints": TINTS,
    "kinds": KINDS,
    "extremes": EXTREMES,
    "long": LONG,
    "near": LEVEL_NEAR,
    "dashes": DASHES,
}


def kind(name: str) -> str:
    """The color's name of an event or a span."""
    if name in KINDS["light"]:
        return name
    return "fault" if name in FAULTS else ""


FONT_PT = 7.5
LEAST_PANEL = 2.6  # inches that a panel needs beside another, in letters of the usual size
PICTURE_NUMBERS = 24_000  # numbers of all curves of a picture
SMOOTH_FROM = 300  # points from which a noisy curve is drawn under its running mean
PICTURE: dict[Any, Any] = {
    "axes.titleweight": "bold",
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#e2e4e9",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.1,
    "lines.solid_capstyle": "round",
    "legend.handlelength": 1.4,
    "legend.columnspacing": 1.2,
    "pdf.fonttype": 42,  # letters that can be searched and edited
    "svg.fonttype": "none",
    "svg.hashsalt": "gputel",
}


@dataclass(frozen=True)
class PictureLook:
    """Sizes in inches, `font` in points; `panels` are those to draw, by name, all if empty.

    `width` is that of the picture, if it was asked for; else each panel is as wide as `panel`.
    """

    width: float | None = None
    panel: float = 3.5  # a column of a paper
    shape: float = 2.3 / 3.5  # height of a panel by its width
    beside: int = 2  # panels on a page of PDF
    page: float = 9.5  # its height
    font: float = FONT_PT
    dpi: int = 300
    panels: tuple[str, ...] = ()

    @property
    def scale(self) -> float:
        """How much heavier lines are than beside letters of the usual size."""
        return self.font / FONT_PT

    def columns(self, count: int, *, paged: bool = False) -> int:
        """How many of so many panels stand side by side: as many as can still be read, if a width was asked for."""
        if self.width is not None:
            return max(min(int(self.width / (LEAST_PANEL * self.scale)), count), 1)
        return min(1 if count <= 3 else 2 if count <= 8 else 3, self.beside if paged else 3)

    def panel_width(self, columns: int) -> float:
        return self.panel if self.width is None else self.width / columns

    def settings(self) -> dict[Any, Any]:
        """What matplotlib calls its rc parameters."""
        lines = {
            name: PICTURE[name] * self.scale
            for name in ("axes.linewidth", "grid.linewidth", "lines.linewidth")
        }
        sizes = {"font.size": 0, "axes.titlesize": 1, "axes.labelsize": 0, "legend.fontsize": -0.5}
        fonts = {name: self.font + more * self.scale for name, more in sizes.items()}
        return {**PICTURE, **lines, **fonts, "figure.dpi": self.dpi, "savefig.dpi": self.dpi}


LOOKS = {
    "paper": PictureLook(),
    "slide": PictureLook(panel=8.0, shape=0.5, beside=1, page=6.0, font=16.0, dpi=150),
}
