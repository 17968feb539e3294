"""The courier beside a recording: it waits for the network, never the other way round."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gputel.telemetry import events
from gputel.telemetry.errors import GputelError
from gputel.telemetry.remote import sidecar
from gputel.telemetry.remote.courier import Courier
from gputel.telemetry.remote.local_copy import local_copy
from gputel.telemetry.remote.sidecar import SyncOrder
from tests.telemetry.remote.test_courier import append, recording

Files = Callable[[Path], dict[str, bytes]]


@pytest.fixture
def order(live_run: Path, address: str) -> SyncOrder:
    return SyncOrder(str(live_run), str(live_run), address)


def test_what_grows_is_sent_every_ten_seconds_until_the_recorder_has_gone(
    order: SyncOrder, live_run: Path, address: str, files: Files
) -> None:
    slept: list[float] = []
    with recording(live_run):

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            append(live_run / "output.log", b"step 3\n")
            if sum(slept) == 20:
                raise StopIteration

        with pytest.raises(StopIteration):
            sidecar.follow(order, sleep)
    assert (local_copy(address).path / "output.log").read_bytes().count(b"step 3\n") == 20
    sidecar.follow(order, sleep)
    copy = local_copy(address)
    assert not copy.unsealed
    assert files(copy.path).items() >= files(live_run).items()


def test_sampler_of_a_killed_viewer_has_time_for_its_last_words(
    order: SyncOrder, live_run: Path, address: str
) -> None:
    """The lock is free before the sampler has written its statistics."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        append(live_run / "output.log", b"last words\n")

    sidecar.follow(order, sleep, viewer=1 << 30)
    assert slept == [sidecar.LAST_WORDS_S]
    assert (local_copy(address).path / "output.log").read_bytes().endswith(b"last words\n")


def test_fault_of_the_network_is_one_event_and_its_end_another(
    order: SyncOrder, live_run: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = iter(range(5))
    send = Courier.send

    def failing(courier: Courier, *, over: bool) -> None:
        if next(faults, None) is not None:
            raise GputelError(address, "its endpoint cannot be reached")
        send(courier, over=over)

    monkeypatch.setattr(Courier, "send", failing)
    sidecar.follow(order, lambda seconds: None)
    texts = [event["text"] for event in events.read(local_copy(address).path)]
    assert texts == [
        f"sending is held up: {address}: its endpoint cannot be reached",
        "sending goes on after 5 faults",
    ]


def test_courier_gives_up_when_the_grace_after_the_end_is_over(
    order: SyncOrder, live_run: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(courier: Courier, *, over: bool) -> None:
        raise GputelError(address, "its endpoint cannot be reached")

    monkeypatch.setattr(Courier, "send", failing)
    slept: list[float] = []
    sidecar.follow(order, slept.append)
    assert sidecar.GRACE_S / 2 < sum(slept) < sidecar.GRACE_S * 2
    assert len(list(events.read(live_run))) == 1
