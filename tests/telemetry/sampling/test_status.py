"""The board: heartbeat, latest values and throttling."""

import os

from gputel.telemetry.sampling.status import Board


def test_the_board_shows_a_child_to_its_parent() -> None:
    board = Board()
    assert (board.heartbeat, board.read()) == (0, None)
    child = os.fork()
    if child == 0:
        board.beat(42)
        board.publish({"state": "sampling", "gpus": [{"gpu": "0", "power_w": None}]})
        os._exit(0)
    os.waitpid(child, 0)
    assert board.heartbeat == 42
    assert board.read() == {"state": "sampling", "gpus": [{"gpu": "0", "power_w": None}]}


def test_half_a_message_on_the_board_is_no_message() -> None:
    board = Board()
    board.publish({"a": 1})
    board._memory[20] ^= 1
    assert board.read() is None
