"""`gputel formats [NAME]`"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gputel.cli import options, show
from gputel.cli.help import Command

if TYPE_CHECKING:
    from gputel.analysis.document import Document

EXAMPLES = (
    "gputel formats",
    "gputel formats nanochat",
)


@click.command("formats", cls=Command, examples=EXAMPLES)
@click.argument("name", required=False, metavar="[NAME|FILE]")
@options.json
def command(name: str | None, as_json: bool) -> int:
    """List the known log formats, or show one and check that it reads its own samples.

    NAME is one of the list, or a TOML file of your own.
    """
    from gputel.analysis.document import Document, Section, Table
    from gputel.analysis.logs import formats
    from gputel.analysis.logs.formats import samples

    chosen = (formats.find(name),) if name else formats.shipped()
    found = {known.name: samples.check(known) for known in chosen}
    if as_json:
        show.as_json(
            {"schema": 1, "formats": [samples.describe(known, found[known.name]) for known in chosen]}
        )
    elif name:
        show.document(_one(samples.describe(chosen[0], found[chosen[0].name])))
    else:
        rows = [(known.name, known.title) for known in chosen]
        table = Table("", ("format", "what it is"), rows)
        show.document(Document("Log formats", [Section(items=[table])], next="gputel formats NAME"))
    for known, faults in found.items():
        for fault in faults:
            show.error(f"{known}: {fault}; correct the format or its samples")
    return 1 if any(found.values()) else 0


def _one(described: dict[str, Any]) -> Document:
    """A format with the roles of its lines, and how many faults its samples show."""
    from gputel.analysis.document import Document, FactList, Section

    roles = "\n".join(f"{name}: {role}" for name, role in described["lines"].items())
    unread = "\n".join(described["unread"]) or "none"
    pairs = {**described, "lines": roles, "unread": unread, "faults": len(described["faults"]) or "none"}
    facts = FactList({name: str(value) for name, value in pairs.items()})
    return Document(described["name"], [Section(items=[facts])])
