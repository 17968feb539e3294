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
HEAT = ("#0b1026", "#1d2f6f", "#155f8c", "#1b8f7f", "#74b84e", "#e5c63c", "#fff7c8")
"""From little to much; its brightness rises all the way, so that it reads in gray too."""


FOR_PAGES = {"tints": TINTS, "kinds": KINDS, "extremes": EXTREMES}


def kind(name: str) -> str:
    """The color's name of an event or a span."""
    if name in KINDS["light"]:
        return name
    return "fault" if name in FAULTS else ""


PANEL_SHAPE = 2.3 / 3.5  # height by width
FONT_PT = 7.5
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
    """`width` of a panel and `font` in inches and points; `panels` are those to draw, by name, all if empty."""

    width: float = 3.5  # a column of a paper
    font: float = FONT_PT
    dpi: int = 300
    panels: tuple[str, ...] = ()

    @property
    def scale(self) -> float:
        """How much heavier lines are than beside letters of the usual size."""
        return self.font / FONT_PT

    def settings(self) -> dict[Any, Any]:
        """What matplotlib calls its rc parameters."""
        lines = {
            name: PICTURE[name] * self.scale
            for name in ("axes.linewidth", "grid.linewidth", "lines.linewidth")
        }
        sizes = {"font.size": 0, "axes.titlesize": 1, "axes.labelsize": 0, "legend.fontsize": -0.5}
        fonts = {name: self.font + more * self.scale for name, more in sizes.items()}
        return {**PICTURE, **lines, **fonts, "figure.dpi": self.dpi, "savefig.dpi": self.dpi}


LOOKS = {"paper": PictureLook(), "slide": PictureLook(width=8.0, font=16.0, dpi=150)}
