"""`gputel formats [NAME]`"""

from __future__ import annotations

import click

from gputel.cli.help import Command

EXAMPLES = (
    "gputel formats",
    "gputel formats nanochat",
)


@click.command("formats", cls=Command, examples=EXAMPLES)
@click.argument("name", required=False, metavar="[NAME|FILE]")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def command(name: str | None, as_json: bool) -> int:
    """List the log formats that are known, or show one and check that it reads its own samples.

    NAME is one of the list, or a TOML file of your own.
    """
    from gputel.analysis.logs import formats
    from gputel.analysis.logs.formats import samples
    from gputel.cli import show

    chosen = (formats.find(name),) if name else formats.shipped()
    found = {known.name: samples.check(known) for known in chosen}
    if as_json:
        show.as_json(
            {"schema": 1, "formats": [samples.describe(known, found[known.name]) for known in chosen]}
        )
    elif name:
        faults = found[chosen[0].name]
        show.facts({**samples.describe(chosen[0], []), "faults": len(faults) or "none"})
    else:
        show.table(("format", "what it is"), [(known.name, known.title) for known in chosen])
        show.note("next: gputel formats NAME")
    for known, faults in found.items():
        for fault in faults:
            show.error(f"{known}: {fault}; correct the format or its samples")
    return 1 if any(found.values()) else 0
