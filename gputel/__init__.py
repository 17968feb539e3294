"""A flight recorder for training runs. This is the Python API; each name is imported when it is used."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gputel.analysis.compare import compare as compare
    from gputel.analysis.logs import parse as parse
    from gputel.analysis.logs import parse_all as parse_all
    from gputel.analysis.runs import open_run as open_run

__version__ = "0.1.0"

HOMES = {
    "compare": "gputel.analysis.compare",
    "open_run": "gputel.analysis.runs",
    "parse": "gputel.analysis.logs",
    "parse_all": "gputel.analysis.logs",
}

__all__ = ["__version__", *HOMES]


def __getattr__(name: str) -> object:
    if name not in HOMES:
        raise AttributeError(f"module 'gputel' has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
