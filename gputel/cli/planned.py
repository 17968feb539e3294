"""What `gputel plan` was asked, as a request; and the plan, as people read it."""

from __future__ import annotations

import textwrap
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputel.cli import show, sources
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.document import Table
    from gputel.analysis.plan import Plan
    from gputel.analysis.plan.check import PlanCheck
    from gputel.analysis.plan.request import Request

WIDTH = 80
WORDS = 46  # of the last column of a table of sentences

Asked = dict[str, Any]


def plan(asked: Asked) -> Plan:
    from gputel.analysis.plan import request

    return request.plan(_request(asked))


def check(word: str, asked: Asked) -> PlanCheck:
    from gputel.analysis.plan import request

    if asked["csv"] or asked["html"]:
        raise GputelError(
            "--check", "is printed, or given as JSON", "leave out --csv and --html", exit_code=2
        )
    return request.check(sources.one_subject(word), _request(asked))


def _request(asked: Asked) -> Request:
    from gputel.analysis.plan.request import Request

    like = sources.one_subject(asked["like"]) if asked["like"] else None
    return Request(**{field.name: asked[field.name] for field in fields(Request)} | {"like": like})


def print_plan(plan: Plan, *, as_json: bool) -> None:
    from gputel.analysis.documents.plan import heading, remarks, tables
    from gputel.analysis.plan import answer

    if as_json:
        show.as_json(answer.answer(plan))
        return
    show.say(_wrapped(heading(plan)))
    for table in tables(plan):
        _print(table)
    refused = [target.words for target in plan.targets if not target.possible]  # `conclude` says them
    _print_remarks([remark for remark in remarks(plan) if remark not in refused])


def print_check(found: PlanCheck, *, as_json: bool) -> int:
    from gputel.analysis.documents.plan import check_table
    from gputel.analysis.plan import check as checking

    if as_json:
        show.as_json(checking.answer(found))
    else:
        _print(check_table(found))
        _print_remarks(list(found.notes))
    return 0


def write(plan: Plan, kind: str, out: Path, *, force: bool) -> None:
    from gputel.analysis.exports.plan import write

    show.note(f"wrote {write(plan, kind, out, force=force)}")


def conclude(plan: Plan) -> int:
    """A rate that no GPU of this kind reaches is refused in one line."""
    impossible = [target.words for target in plan.targets if not target.possible]
    if impossible:
        raise GputelError("--target-tok-s", f"impossible: {'; '.join(impossible)}")
    return 0


def _print(table: Table) -> None:
    """Sentences in the last column are folded by words, which a terminal would not do."""
    show.say("")
    rows = [
        [*row[:-1], textwrap.fill(str(row[-1]), WORDS)] if _is_prose(row[-1]) else row for row in table.rows
    ]
    show.table(table.columns, rows, title=table.title)


def _is_prose(cell: object) -> bool:
    return isinstance(cell, str) and len(cell) > WORDS


def _print_remarks(remarks: list[str]) -> None:
    if remarks:
        show.say("")
    for remark in remarks:
        show.say(_wrapped(remark))


def _wrapped(words: str) -> str:
    return textwrap.fill(words, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
