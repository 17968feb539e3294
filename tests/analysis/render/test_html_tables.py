"""Tables of pages: what names a column, a row and the whole, and where figures stand."""

from __future__ import annotations

from gputel.analysis.document import Table
from gputel.analysis.render.html_tables import html_table


def test_title_is_the_caption_and_first_cells_name_their_rows() -> None:
    text = html_table(Table("GPUs", ("GPU", "W"), [("node a", 412), ("node b", None)]), 3)
    assert "<caption><h3>GPUs</h3></caption>" in text
    assert '<tr><th scope="row" class="short">node a</th><td class="number">412</td></tr>' in text


def test_table_without_a_title_and_a_folded_one_are_named_by_a_label() -> None:
    assert '<table aria-label="figures">' in html_table(Table("", ("a",), [(1,)]), 2)
    folded = html_table(Table("Events", ("a",), [(1,)], folded=True), 3)
    assert "<summary>Events</summary>" in folded
    assert '<table aria-label="Events">' in folded


def test_head_over_figures_stands_to_the_right_and_an_empty_one_is_no_head() -> None:
    text = html_table(
        Table("T", ("", "W", "why"), [("a", "1,176 W", "1 of 2 GPUs were slower than the rest")]), 2
    )
    assert '<tr><td></td><th scope="col" class="number">W</th><th scope="col">why</th></tr>' in text


def test_number_in_the_first_column_names_no_row() -> None:
    assert 'scope="row"' not in html_table(Table("T", ("step", "loss"), [("1,000", "2.9")]), 2)


def test_few_short_columns_leave_room_beside_them() -> None:
    assert 'class="table narrow"' in html_table(Table("T", ("", "d16", "d24"), [("loss", "2.9", "2.8")]), 2)
    assert 'class="table half"' in html_table(Table("T", tuple("abcdef"), [tuple("abcdef")]), 2)
    assert 'class="table"' in html_table(Table("T", tuple("abcdefghijkl"), [tuple("abcdefghijkl")]), 2)
    assert 'class="table"' in html_table(
        Table("T", ("a",), [("a sentence that needs the whole width " * 3,)]), 2
    )
    row = ("a run with a name that is longer than a cell", 2.9)
    assert 'class="table narrow"' in html_table(Table("T", ("run", "loss"), [row]), 2)


def test_what_was_not_measured_stands_as_its_column_does() -> None:
    text = html_table(Table("runs", ("run", "status", "W"), [("a", None, None), ("b", "done", 412)]), 2)
    assert '<th scope="row" class="short">a</th><td>–</td><td class="number">–</td>' in text
