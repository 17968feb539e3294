"""A flight recorder for training runs. This is the Python API; each name is imported when it is used."""

from importlib import import_module
from typing import TYPE_CHECKING

from gputel.gputel_log import config as config
from gputel.gputel_log import log as log
from gputel.gputel_log import mark as mark
from gputel.gputel_log import span as span
from gputel.gputel_log import step as step

if TYPE_CHECKING:
    from gputel.api import compare as compare
    from gputel.api import gate as gate
    from gputel.api import open_run as open_run
    from gputel.api import parse as parse
    from gputel.api import parse_all as parse_all
    from gputel.api import plan as plan
    from gputel.api import scan as scan

__version__ = "0.1.0"

API = ("compare", "gate", "open_run", "parse", "parse_all", "plan", "scan")

__all__ = ["__version__", "config", "log", "mark", "span", "step", *API]


def __getattr__(name: str) -> object:
    if name not in API:
        raise AttributeError(f"module 'gputel' has no attribute {name!r}")
    return getattr(import_module("gputel.api"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
