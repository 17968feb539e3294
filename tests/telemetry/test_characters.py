"""Characters that act or hide are written as codes, and no others."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.telemetry.characters import escaped_json, parse_json, visible, visible_line

ACTING = ("Cc", "Cf", "Cs", "Zl", "Zp")
INVISIBLE = "\u034f\u115f\u1160\u17b4\u180b\u3164\ufe00\uffa0\U000e0100"  # letters and marks of no width


def test_every_control_format_and_separator_character_is_written_as_code() -> None:
    everything = [chr(number) for number in range(0x110000)]
    acting = [letter for letter in everything if unicodedata.category(letter) in ACTING and letter != "\t"]
    assert [letter for letter in (*acting, *INVISIBLE) if not visible_line(letter).startswith("\\")] == []
    assert [letter for letter in (*acting, *INVISIBLE) if not visible(letter).startswith(("\\", "\n"))] == []


@given(st.text(st.characters(categories=("L", "N", "P", "S"), exclude_characters=INVISIBLE + "\\")))
def test_letters_numbers_and_signs_stay(text: str) -> None:
    kept = "".join(letter for letter in text if visible_line(letter) == letter)
    assert visible(text) == visible_line(text) == escaped_json(text) == text == kept


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b\x1b[0m]52;c;QQ==\x07", r"\x1b\x1b[0m]52;c;QQ==\x07"),
        ("a\u202eb", r"a\u202eb"),
        ("\x9b2J", r"\x9b2J"),
        ("\U000e0041", r"\U000e0041"),
        ("\udcff", r"\udcff"),
        ("a\r\nb", r"a\x0d\x0ab"),
        ("né 日本 – 👍🏽 \t C:\\x", "né 日本 – 👍🏽 \t C:\\x"),
    ],
)
def test_acting_character_is_shown_by_its_number(text: str, shown: str) -> None:
    assert visible_line(text) == shown


@given(st.text())
def test_escaped_json_says_the_same(text: str) -> None:
    written = escaped_json(json.dumps({text: text}, ensure_ascii=False))
    assert json.loads(written.encode()) == {text: text}
    assert all(unicodedata.category(letter) not in ACTING for letter in written)


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    assert parse_json(rb'{"a": "\udcff \ud83d\udc4d"}') == {"a": "? \N{THUMBS UP SIGN}"}


@pytest.mark.parametrize("text", [b"{", b"\xff", b"[" * 100_000, b""])
def test_text_that_is_not_json_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(text)
