"""What an earlier follower knew, for the one that goes on where it was."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gputel.analysis.live.growing import Place
from gputel.analysis.live.kept import Kept
from gputel.analysis.live.plain import Said
from gputel.analysis.live.replays import Replays
from gputel.analysis.live.state import State
from gputel.analysis.parse.increments import Increments


@dataclass(frozen=True)
class Past:
    """Of one stream."""

    increments: Increments
    said: Said
    place: Place | None
    replays: Replays | None
    finished: bool


class Memory:
    """Of all runs, as of the last checkpoint."""

    def __init__(self, kept: Kept | None) -> None:
        self._runs: dict[str, tuple[State, dict[str, Past]]] = kept.recalled.get("runs", {}) if kept else {}
        self._places: dict[tuple[str, str], Place] = {}
        for pieces in kept.batches if kept else []:
            self._places.update({(piece.run, piece.stream): piece.place for piece in pieces if piece.place})

    @property
    def sources(self) -> list[str]:
        return list(self._runs)

    def state(self, run: str) -> State | None:
        return self._runs[run][0] if run in self._runs else None

    def past(self, run: str, stream: str) -> Past | None:
        """As of the checkpoint, but for the place, which is where the journal ends."""
        known = self._runs[run][1].get(stream) if run in self._runs else None
        place = self._places.get((run, stream))
        if known and known.replays:
            known.replays.settle()
        if known is None and place is None:
            return None
        known = known or Past(Increments(), Said(), None, None, False)
        return replace(known, place=place or known.place)
