"""`gputel share RUN|PAGE`"""

from __future__ import annotations

from pathlib import Path

import click

from gputel.analysis import text
from gputel.cli import options, progress_line, show
from gputel.cli.help import Command
from gputel.telemetry.errors import GputelError

EXAMPLES = (
    "gputel share runs/d16 --to s3://bucket/pages/",
    "gputel share gputel-compare.html --to s3://bucket/d16-d24.html --expires 2d",
    "gputel share latest",
)
LONGEST_S = 7 * 86_400.0  # S3 signs no link for longer
HTML = "text/html; charset=utf-8"
KEPT = "the run folder itself: samples, output.log, source/"


@click.command("share", cls=Command, examples=EXAMPLES)
@click.argument("run", metavar="[RUN|PAGE]", default="latest")
@click.option("--to", metavar="s3://BUCKET/KEY", help="Send the page there, and print a link to it.")
@click.option(
    "--expires",
    type=options.duration,
    default="7d",
    show_default=True,
    metavar="7d",
    help="How long the link works.",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be sent where.")
@progress_line.shown()
def command(run: str, to: str | None, expires: float, dry_run: bool) -> None:
    """Send a run's page, or a page that was written before, to object storage.

    Secrets are masked once more, and home folders become ~. Only the page is sent. Without --to,
    prints how to copy it.
    """
    from gputel.analysis.render.shared_page import shared_page

    name, written = _page(run)
    folder, key = _place(to, name) if to else ("", "")
    where = f"{folder}/{key}"
    page = shared_page(written)
    show.note(f"goes: {name}, {text.size(len(page))}: one page with its tables and curves")
    show.note(f"stays: {KEPT}")
    if not to:
        page_file = run if run.endswith(".html") else f"{name} of 'gputel report {run} --html'"
        show.note(
            f"one file that opens offline: scp it, as in 'scp {page_file} HOST:', or name --to s3://..."
        )
    elif dry_run:
        show.note(f"would send it to {where}")
    else:
        from gputel.telemetry.remote.storage import Storage

        storage, good_s = Storage(folder), min(expires, LONGEST_S)
        storage.put(key, page, HTML)
        show.note(f"sent to {where}; the link is good for {text.duration(good_s)}, for anybody who has it")
        show.say(storage.link(key, good_s))


def _place(address: str, name: str) -> tuple[str, str]:
    """The folder and the name of the object: `name`, unless the address ends with that of a page."""
    from gputel.telemetry.remote import storage

    if not storage.is_signing(address):
        raise GputelError(address, "is no address to share at", "such as s3://bucket/folder/", exit_code=2)
    folder, _, last = address.rstrip("/").rpartition("/")
    return (folder, last) if last.endswith(".html") else (address.rstrip("/"), name)


def _page(word: str) -> tuple[str, bytes]:
    """The name and the content of a page: one of ours that is there, else the report of a run."""
    from gputel.analysis.documents.report import report_document
    from gputel.analysis.render import html
    from gputel.analysis.report.run_report import make_report
    from gputel.cli import sources
    from gputel.telemetry.file_names import file_name

    path = Path(word)
    if path.suffix == ".html":
        if not path.is_file():
            raise GputelError(word, "no such page", "name a page that gputel wrote, or a run")
        content = path.read_bytes()
        if not html.is_ours(content):
            raise GputelError(word, "is not a page of gputel", "name one of 'gputel report --html'")
        return path.name, content
    subject = sources.one_subject(word)
    return f"{file_name(subject.name)}.html", html.html(report_document(make_report(subject)))
