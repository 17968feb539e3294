"""A doubt: two figures of one answer that cannot both be right, with both figures and the likeliest reason.

A doubt about the `reading` asks whether the log was understood, one about the `run` whether what was understood can
be. A figure in doubt is never used silently: it is absent, or the doubt beside it says which figure was used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Doubt:
    """`what` names the check, such as `step-time`; `evidence` is a phrase with two figures, `figures` has them.

    `likely` is the likeliest reason; `line` is the line of the log that shows it, if one does.
    """

    about: Literal["reading", "run"]
    what: str
    evidence: str
    likely: str
    figures: Mapping[str, float | str | None] = field(default_factory=dict)
    line: int | None = None

    @property
    def text(self) -> str:
        """The sentence that people read."""
        return f"{self.evidence}: {self.likely}"

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.what,
            "about": self.about,
            "text": self.text,
            "figures": dict(self.figures),
            "line": self.line,
        }


def about_reading(
    what: str, evidence: str, likely: str, figures: Mapping[str, Any], line: int | None
) -> Doubt:
    return Doubt("reading", what, evidence, likely, figures, None if line is None else int(line))
