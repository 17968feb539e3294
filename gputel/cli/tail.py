"""`gputel tail PATH...`: in the terminal view, as lines, or as a page in the browser."""

from __future__ import annotations

import contextlib
import gc
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gputel.analysis import progress
from gputel.cli import alarms, progress_line, show
from gputel.cli.help import Command, Groups
from gputel.telemetry.errors import GputelError, reason

if TYPE_CHECKING:
    from gputel.analysis.live.follower import Follower
    from gputel.analysis.live.resume import Positions
    from gputel.analysis.live.session import Session

LINE_VIEWS = ("plain", "json")
REFRESH_S = 1.0
ALARMED = 4  # the exit code of a tail that an alarm ended

EXAMPLES = (
    "gputel tail latest",
    "gputel tail runs/ --web",
    "gputel tail train.log --plain --exit-on-alarm --hours 31h",
)
GROUPS: Groups = {
    "What is followed": ("from", "format", "fresh"),
    "How it is shown": (
        "plain",
        "json",
        "web",
        ("port host", "Port and address of the page.  [default: 8765 on 127.0.0.1]"),
        ("token token-file", "Token of the page, or a file that keeps it; else each start makes one."),
        "prometheus",
    ),
    "Limits": ("price", "gpus", "budget", "hours", "preset"),
    "What an alarm does": (
        "on-alarm",
        ("webhook notify", "Post each alarm to a URL, or to an apprise address."),
        "bell",
        "exit-on-alarm",
    ),
}


@click.command("tail", cls=Command, examples=EXAMPLES, groups=GROUPS)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--from",
    "commands",
    multiple=True,
    metavar="RANK=COMMAND",
    help="Follow a command's output as one rank; or prometheus:URL.",
)
@click.option("--format", "chosen", metavar="NAME|FILE", help="Read with this format only.")
@click.option("--plain", is_flag=True, help="Print a line for each record, for pipes and files.")
@click.option("--json", "as_json", is_flag=True, help="Print each row as a line of JSON.")
@click.option("--fresh", is_flag=True, help="Start at the first line, even if it was shown before.")
@click.option("--web", is_flag=True, help="Serve a live page for the browser.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Port of the page.  [default: 8765, or a free one]",
)
@click.option("--host", metavar="ADDRESS", help="Serve the page there, behind a token.  [default: 127.0.0.1]")
@click.option("--token", metavar="TOKEN", help="Token of the page, instead of a new one at each start.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Keep the token of the page there.",
)
@alarms.alarm_options
def command(**asked: Any) -> int:
    """Follow runs as they happen.

    PATH is a log, a run folder, a folder in which new ones appear, a glob, `latest`, `-` for standard input, or
    a run in object storage, such as s3://bucket/d16.
    """
    alarms.check(asked)
    _check(asked)
    if asked["web"]:
        return _serve_page(asked)
    if not (asked["plain"] or asked["as_json"]) and (piped := show.taken()) is not None:
        return _show_on_terminal(asked, piped)
    return _print_lines(asked)


def open_follower(
    paths: Sequence[str],
    froms: Sequence[str],
    chosen: str | None,
    view: str,
    *,
    fresh: bool = False,
    piped: int = 0,
) -> Follower:
    """Opens everything that is to be followed. `-` reads the descriptor `piped`.

    Only views that print lines resume where the last one stopped; the terminal and the page show all of a run.
    """
    from gputel.analysis.live.commands import split_command
    from gputel.analysis.live.follower import Follower
    from gputel.analysis.logs import files
    from gputel.cli import sources

    if not paths and not froms:
        hint = "name a log, a run folder, or --from RANK=COMMAND"
        raise GputelError("gputel tail", "nothing to follow", hint, exit_code=2)
    servers = [text.removeprefix("prometheus:") for text in froms if text.startswith("prometheus:")]
    if servers:
        return _of_databases(servers, paths, others=len(froms) > len(servers))
    paths = sources.in_natural_order(paths)
    words = [str(sources.latest()) if word == "latest" else word for word in paths]
    ranks = [split_command(text) for text in froms]
    formats = files.chosen(chosen)
    if "-" in words or view not in LINE_VIEWS:
        return Follower(words, ranks, formats, piped=piped)
    positions = _positions(words, froms, chosen, view, fresh=fresh)
    return Follower(words, ranks, formats, positions=positions)


def _of_databases(servers: Sequence[str], runs: Sequence[str], *, others: bool) -> Follower:
    """Follows runs, which are known by name, in each of the databases."""
    from gputel.analysis.live.database import FollowedDatabase
    from gputel.analysis.live.follower import Follower

    if others:
        raise click.UsageError("--from prometheus:URL and --from RANK=COMMAND are alternatives")
    if not runs:
        raise click.UsageError("name the run: its label `run` in the database")
    follower = Follower([])
    follower.runs += [FollowedDatabase(server, run) for server in servers for run in runs]
    return follower


@contextlib.contextmanager
def first_reading(follower: Follower) -> Iterator[Callable[[], None]]:
    """Shows how far the first reading of all runs has come; call what it yields after each turn."""
    from gputel.analysis.runs import paths

    with contextlib.ExitStack() as shown:
        shown.enter_context(progress_line.shown())
        follower.look()
        files = [Path(run.source) for run in follower.runs]
        label = f"reading {len(files)} runs" if len(files) != 1 else f"reading {files[0].name}"
        total = sum(paths.bytes_of(file) for file in files if file.exists())
        follower.on_bytes = shown.enter_context(progress.stage(label, total, progress.BYTES))

        def turn() -> None:
            if not follower.is_full:
                follower.on_bytes = lambda _: None
                shown.close()

        yield turn


class Notes:
    """Prints notes about the files that are followed on standard error, each once."""

    def __init__(self) -> None:
        self._printed: set[str] = set()

    def show(self, follower: Follower) -> None:
        notes = [note for run in follower.runs for note in run.notes]
        notes += [f"{run.source}: {run.trouble}" for run in follower.runs if run.trouble]
        notes += [*follower.awaited, *follower.notes]
        for note in notes:
            if note not in self._printed:
                self._printed.add(note)
                show.note(note)


@contextlib.contextmanager
def until_signal(follower: Follower) -> Iterator[list[int]]:
    """Yields a list that SIGINT and SIGTERM fill; neither signal reaches the runs."""
    import signal

    received: list[int] = []

    def receive(number: int, _frame: object) -> None:
        received.append(number)
        follower.wake()

    before = {number: signal.signal(number, receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check(asked: Mapping[str, Any]) -> None:
    """Refuses options that contradict each other."""
    if asked["web"] and (asked["plain"] or asked["as_json"]):
        raise click.UsageError("--web shows the runs in the browser: leave out --plain and --json")
    for name in ("host", "port", "token", "token_file"):
        if asked[name] is not None and not asked["web"]:
            raise click.UsageError(f"--{name.replace('_', '-')} needs --web")
    if asked["token"] is not None and asked["token_file"] is not None:
        raise click.UsageError("--token and --token-file are alternatives: give one")


@contextlib.contextmanager
def _session(
    asked: Mapping[str, Any], view: str, on_trouble: Callable[[str], None], piped: int = 0
) -> Iterator[Session]:
    """Opens the session with its notifier and exporter; an option that cannot work fails before any run is read."""
    from gputel.analysis.live.session import Session
    from gputel.analysis.live.view import Terms

    rules = alarms.wanted(asked)
    terms = Terms(asked["price"], asked["budget"], asked["gpus"])
    with (
        alarms.notifier(asked, on_trouble) as notifier,
        alarms.exporter(asked["prometheus"]) as exporter,
        _local(asked["paths"], on_trouble) as paths,
        contextlib.closing(
            open_follower(paths, asked["commands"], asked["chosen"], view, fresh=asked["fresh"], piped=piped)
        ) as follower,
    ):
        yield Session(follower, rules, terms, notifier, exporter)


@contextlib.contextmanager
def _local(words: Sequence[str], on_note: Callable[[str], None]) -> Iterator[list[str]]:
    """The words; an address, such as `s3://bucket/d16`, is a local copy that is kept up to date meanwhile."""
    from gputel.telemetry.remote import storage

    with contextlib.ExitStack() as mirrors:

        def local(word: str) -> str:
            from gputel.analysis.live.mirror import Mirror

            return str(mirrors.enter_context(contextlib.closing(Mirror(word, on_note))).path)

        yield [local(word) if storage.is_address(word) else word for word in words]


def _print_lines(asked: Mapping[str, Any]) -> int:
    """Prints a line for each row and alarm until every run is over or a signal comes."""
    from gputel.analysis.live import lines

    printer = lines.LinePrinter(lines.rows_json if asked["as_json"] else lines.rows_text)
    notes = Notes()
    with _session(asked, "json" if asked["as_json"] else "plain", show.note) as session:
        follower = session.follower
        with until_signal(follower) as received, first_reading(follower) as read:
            for turn in session.turns(lambda: bool(received)):
                read()
                notes.show(follower)
                rows = [line for update in turn.updates for line in printer.rows(update)]
                alarmed = list(printer.alarms(turn))
                show.rows([*rows, *alarmed], as_json=asked["as_json"])
                follower.shown()
                if asked["bell"] and alarmed:
                    show.bell()
                if asked["exit_on_alarm"] and session.is_alarmed:
                    return ALARMED
    return 0


def _show_on_terminal(asked: Mapping[str, Any], piped: int) -> int:
    """Runs the terminal view; if it ended because of an alarm, prints the active alarms afterwards."""
    gc.disable()  # imports make objects that stay: looking through them took an eighth of their time
    from gputel.analysis.live.terminal import app, snapshots, text

    gc.freeze()
    gc.enable()

    troubles: list[str] = []
    with _session(asked, "terminal", troubles.append, piped) as session, warnings_to(troubles.append):
        terminal = app.Terminal(
            lambda ending: snapshots.snapshots(session, troubles, ending),
            session.follower.wake,
            reading=lambda: session.follower.first_reading,
            bell=asked["bell"],
            exit_on_alarm=asked["exit_on_alarm"],
            has_unicode=text.has_unicode(os.environ),
        )
        try:
            alarmed = terminal.run()
        finally:
            terminal.wait()
    if terminal.fault is not None:
        raise terminal.fault
    if not alarmed:
        return 0
    for run in terminal.snapshot.runs:
        for alarm in run.active:
            show.note(f"{run.view.name}: {alarm.line}")
    return ALARMED


@contextlib.contextmanager
def warnings_to(take: Callable[[str], object]) -> Iterator[None]:
    """Gives warnings, such as that of a damaged file, to `take`: printed, they would scroll a full screen away."""

    def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
        take(str(message))

    before = warnings.showwarning
    warnings.showwarning = show_warning
    try:
        yield
    finally:
        warnings.showwarning = before


def _serve_page(asked: Mapping[str, Any]) -> int:
    """Serves the page until a signal comes, also after every run is over."""
    from gputel.analysis.live.web.server import LivePage

    with _session(asked, "web", show.note) as session:
        follower = session.follower
        with (
            contextlib.closing(
                LivePage(asked["host"] or "127.0.0.1", asked["port"], follower.wake, token=_token(asked))
            ) as page,
            until_signal(follower) as received,
            first_reading(follower) as read,
        ):
            notes = Notes()
            show.say(page.link)
            show.note("open it in a browser; Ctrl-C stops the page, the runs go on")
            if tunnel := page.access.tunnel(os.environ):
                show.note(f"on your own machine: {tunnel}")
            for turn in session.turns(lambda: bool(received)):
                read()
                notes.show(follower)
                page.show(session.views)
                if asked["bell"] and turn.notices:
                    show.bell()
                if asked["exit_on_alarm"] and session.is_alarmed:
                    return ALARMED
            while not received:
                page.wait(REFRESH_S)
                page.show(session.views)
    return 0


def _token(asked: Mapping[str, Any]) -> str | None:
    """The token of the page that was named or kept; None for a new one."""
    from gputel.analysis.live.web import access

    if asked["token"] is not None:
        return access.checked_token(asked["token"], "--token")
    return access.kept_token(asked["token_file"]) if asked["token_file"] else None


def _positions(
    words: Sequence[str], froms: Sequence[str], chosen: str | None, view: str, *, fresh: bool
) -> Positions | None:
    """Saved positions of the same words and view; None if another `tail` uses them, or none can be saved."""
    from gputel.analysis.live import resume

    identity = [view, chosen or "", *(str(Path(word).resolve()) for word in words), *froms]
    try:
        return resume.open_positions(identity, fresh=fresh)
    except BlockingIOError:
        why = "another tail follows the same paths"
    except OSError as error:
        why = f"{error.filename}: {reason(error)}"
    show.note(f"{why}: all rows are shown, and no position is saved")
    return None
