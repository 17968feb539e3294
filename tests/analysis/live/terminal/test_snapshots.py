"""Snapshots of a session that follows a real log."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from gputel.analysis.alarms import rules
from gputel.analysis.live.follower import Follower
from gputel.analysis.live.session import Session
from gputel.analysis.live.terminal.snapshots import snapshots
from tests.analysis.live.terminal.scenes import screen_text


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    log = tmp_path / "d16.log"
    log.write_text("".join(f"step {step} | loss: 3.0 | dt: 9.00ms\n" for step in range(5)))
    opened = Session(Follower([str(log)]), rules.load())
    yield opened
    opened.follower.close()


class Ending(Event):
    """Is set after a number of looks, and never waits."""

    def __init__(self, turns: int) -> None:
        super().__init__()
        self._left = turns

    def is_set(self) -> bool:
        self._left -= 1
        return self._left < 0

    def wait(self, timeout: float | None = None) -> bool:
        return False


@pytest.mark.long
def test_no_snapshot_while_nothing_changes(session: Session) -> None:
    clock = iter(range(1000))
    taken = list(snapshots(session, [], Ending(5), lambda: next(clock)))
    assert [shown.view.step for each in taken for shown in each.runs] in ([4], [3, 4], [4, 4])


@pytest.mark.long
def test_snapshots_are_at_most_four_per_second_and_end_with_the_last_state(
    session: Session,
) -> None:
    taken = list(snapshots(session, [], Ending(5), lambda: 0.0))
    assert len(taken) <= 2
    assert taken[-1].runs[0].view.step == 4


def test_undelivered_notification_is_shown(session: Session) -> None:
    *_, last = snapshots(session, ["webhook at there: 'nan' was not delivered"], Ending(2))
    assert "was not delivered" in screen_text(last)
