"""A document as Markdown, in which whatever came from a log is text."""

from gputel.analysis.document import Document, FactList, Section, Table
from gputel.analysis.render.markdown import markdown

EVIL = "a|b <script> `x` *y*"


def test_markdown_holds_facts_tables_and_notes_in_order() -> None:
    table = Table("GPUs", ("GPU", "W"), [("0", 412), ("1", None)], note="over the training")
    document = Document(
        "d16", [Section(items=(FactList({"run": "d16", "tags": None}), table))], about="one run"
    )
    assert markdown(document, "<!-- ours -->").split("\n\n") == [
        "<!-- ours -->",
        "**one run**",
        "- run: d16",
        "### GPUs",
        "| GPU | W |\n| --- | ---: |\n| 0 | 412 |\n| 1 | - |",
        "over the training\n",
    ]


def test_markdown_escapes_what_a_log_printed() -> None:
    written = markdown(Document(EVIL, [Section(items=(Table(EVIL, (EVIL,), [(EVIL,)]),))]))
    assert "<script" not in written
    assert "a\\|b" in written


def test_fact_of_several_lines_is_one_item_of_a_list() -> None:
    written = markdown(Document("d16", [Section(items=(FactList({"mfu": "43.9 %\nthe log prints it"}),))]))
    assert "- mfu: 43.9 %; the log prints it\n" in written
