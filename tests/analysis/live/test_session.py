"""What a view gets, and which other views hear of it."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputel.analysis.alarms import rules
from gputel.analysis.live.follower import Follower
from gputel.analysis.live.notify import Notice
from gputel.analysis.live.session import Session


class Notes:
    """A notifier that keeps what it is sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def send(self, notice: Notice) -> None:
        self.sent.append(notice.line)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def write(path: Path, *losses: float, start: int = 0) -> None:
    with path.open("a") as log:
        log.writelines(
            f"step {step} | loss: {loss} | dt: 9.00ms\n" for step, loss in enumerate(losses, start)
        )


def turns(session: Session, count: int) -> Iterator[list[str]]:
    following = session.turns()
    for _ in range(count):
        yield [notice.line for notice in next(following).notices]


def test_alarm_is_handed_to_the_view_and_to_the_notifier(tmp_path: Path) -> None:
    log, notes = tmp_path / "d16.log", Notes()
    write(log, 3.0, 2.9, math.nan, math.nan)
    session = Session(Follower([str(log)]), rules.load(), notifier=notes)  # type: ignore[arg-type]
    line = "d16: NaN or infinite loss at step 2: loss is NaN"
    assert list(turns(session, 2)) == [[], [line]]  # once what was there is read
    assert notes.sent == [line]
    ((view, judge),) = session.views()
    assert (view.step, [alarm.rule for alarm in judge.active]) == (3, ["nan"])
    session.follower.close()


def test_run_that_has_completed_misses_no_step(tmp_path: Path) -> None:
    log = tmp_path / "d16.log"
    log.write_text("".join(f"step {step}/5 | loss: 3.0 | dt: 9.00ms\n" for step in range(1, 6)) + "Done\n")
    os.utime(log, (0, 0))
    session = Session(Follower([str(log)]), rules.load())
    assert list(turns(session, 2)) == [[], []]
    assert [view.status for view, _ in session.views()] == ["completed"]
    session.follower.close()


def test_second_session_does_not_repeat_an_alarm(tmp_path: Path) -> None:
    log = tmp_path / "d16.log"
    write(log, 3.0, math.nan, math.nan)
    for result in (1, 0):
        session = Session(Follower([str(log)]), rules.load())
        _, notices = turns(session, 2)
        session.follower.close()
        assert len(notices) == result
