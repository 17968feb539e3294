"""Text of the terminal view: times, clean words, lines of an exact width."""

from datetime import datetime, timedelta, timezone

import pytest
from rich.cells import cell_len
from rich.text import Text

from gputel.analysis.live.terminal.text import (
    clean,
    event_time,
    fit,
    flow,
    has_unicode,
    in_ascii,
    moment,
    shortened,
)

AT = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


def test_moment_names_the_day_only_if_it_is_another() -> None:
    here = AT.astimezone()
    assert moment(AT, AT) == f"{here:%H:%M}"
    assert moment(AT + timedelta(days=2), AT) == f"{here + timedelta(days=2):%a %d %b %H:%M}"


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (AT, AT),
        ("2026-11-21T12:00:00.123456789Z", AT),
        ("2026-11-21T12:00:00", AT),
        ("soon", None),
        (None, None),
    ],
)
def test_event_time_is_read_from_a_log_and_from_a_recorder(time: object, expected: datetime | None) -> None:
    assert event_time(time) == expected


def test_clean_text_has_no_control_characters() -> None:
    assert clean("\x1b]52;c;aGk=\x07 a\tb\u202ec\u200bd\x9b1m") == "]52;c;aGk=  a b c d 1m"


@pytest.mark.parametrize("width", range(12))
@pytest.mark.parametrize("name", ["nanochat-d20-lr-1e-3", "名前の長い実行", "d16"])
def test_shortened_name_keeps_both_ends_and_never_exceeds_its_width(name: str, width: int) -> None:
    short = shortened(name, width)
    assert cell_len(short) <= max(width, 1)
    if cell_len(name) <= width:
        assert short == name
    elif width >= 5:
        assert (short[0], short[-1]) == (name[0], name[-1])


def test_fit_cuts_or_pads_and_leaves_the_original() -> None:
    text = Text("loss 2.4179")
    assert [fit(text, width).plain for width in (6, 13)] == ["loss …", "loss 2.4179  "]
    assert text.plain == "loss 2.4179"


def test_flow_begins_a_line_where_a_chip_has_no_room() -> None:
    chips = [Text(word) for word in ("step 250", "loss 2.4", "tok/s 512,340")]
    assert [line.plain.rstrip() for line in flow(chips, 20)] == ["step 250  loss 2.4", "tok/s 512,340"]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TERM": "xterm-256color", "LANG": "en_US.UTF-8"}, True),
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "tmux-256color", "LC_ALL": "C", "LANG": "en_US.UTF-8"}, False),
        ({"TERM": "xterm", "LC_CTYPE": "C.utf8"}, True),
        ({"TERM": "xterm", "LANG": "de_DE.ISO-8859-1"}, False),
        ({"TERM": "linux", "LANG": "en_US.UTF-8"}, False),
        ({"TERM": "vt100", "LANG": "en_US.UTF-8"}, False),
    ],
)
def test_unicode_follows_from_terminal_and_locale(environment: dict[str, str], *, expected: bool) -> None:
    assert has_unicode(environment) is expected


def test_ascii_line_keeps_width_and_styles() -> None:
    text = Text.assemble(("名前", "bold"), " ▁█ ", ("⠀⡇⣿", "cyan"), ("● loss…", "red"))
    plain = in_ascii(text)
    assert plain.plain == "???? _#  :*o loss~"
    assert plain.cell_len == text.cell_len
    assert [(plain.plain[span.start : span.end], span.style) for span in plain.spans] == [
        ("????", "bold"),
        (" :*", "cyan"),
        ("o loss~", "red"),
    ]
