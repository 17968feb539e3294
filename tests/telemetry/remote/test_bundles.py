"""Bundles: pieces of growing files, of which a damaged one costs itself."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.telemetry.clock import Stamp
from gputel.telemetry.errors import GputelError
from gputel.telemetry.remote import bundles
from gputel.telemetry.remote.bundles import GrownPiece

PIECES = (GrownPiece("output.idx", 16, bytes(32)), GrownPiece("output.log", 900, b"step 3 | loss 2.5\n" * 40))
BUNDLE = bundles.encode(PIECES, {"output.log": 1620, "events.jsonl": 7}, Stamp(3, 2, 1))


def test_bundle_holds_its_pieces_and_all_ends() -> None:
    assert tuple(bundles.decode(BUNDLE)) == PIECES
    assert bundles.ends(BUNDLE) == {"output.log": 1620, "events.jsonl": 7}


@given(at=st.integers(0, len(BUNDLE) - 1), cut=st.booleans(), byte=st.integers(0, 255))
def test_damaged_bundle_is_an_error_and_nothing_else(at: int, cut: bool, byte: int) -> None:
    damaged = BUNDLE[:at] if cut else BUNDLE[:at] + bytes([byte]) + BUNDLE[at + 1 :]
    bundles.ends(damaged)
    with suppress(GputelError):
        assert all(isinstance(piece, GrownPiece) for piece in bundles.decode(damaged))


@pytest.mark.parametrize("length", [1 << 40, -1, True, "4"])
def test_length_that_cannot_be_is_refused_before_anything_is_unpacked(length: object) -> None:
    head = json.dumps({"pieces": [["output.log", 0, length]]}).encode()
    with pytest.raises(GputelError, match="damaged"):
        list(bundles.decode(bundles.LENGTH.pack(len(head)) + head + b"x"))


def test_bundle_that_unpacks_to_more_than_it_says_is_refused() -> None:
    honest = bundles.encode([GrownPiece("output.log", 0, bytes(1 << 20))], {}, Stamp(0, 0, 0))
    (length,) = bundles.LENGTH.unpack_from(honest)
    body = honest[bundles.LENGTH.size + length :]
    head = json.dumps({"pieces": [["output.log", 0, 10]]}).encode()
    with pytest.raises(GputelError, match="damaged"):
        list(bundles.decode(bundles.LENGTH.pack(len(head)) + head + body))
