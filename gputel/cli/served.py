"""What `gputel tail --web` does with its words: serves the page of what is followed until somebody ends it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import click

from gputel.cli import show

LOOK_S = 1.0


def check(asked: Mapping[str, Any]) -> None:
    if asked["web"] and (asked["plain"] or asked["as_json"]):
        raise click.UsageError("--web shows the runs in the browser: leave --plain and --json away")
    for name in ("host", "port"):
        if asked[name] is not None and not asked["web"]:
            raise click.UsageError(f"--{name} needs --web")


def shown(asked: Mapping[str, Any]) -> int:
    from gputel.analysis.live.web.server import LivePage
    from gputel.cli import followed

    with followed.session(asked, "web", show.note) as following:
        follower = following.follower
        with (
            contextlib.closing(LivePage(asked["host"] or "127.0.0.1", asked["port"], follower.wake)) as page,
            followed.until_told(follower) as ended,
        ):
            notes = followed.Notes()
            show.say(page.link)
            show.note("open it in a browser; Ctrl-C ends the page and leaves the runs untouched")
            for turn in following.turns(lambda: bool(ended)):
                notes.tell(follower)
                page.show(following.views)
                if asked["bell"] and turn.notices:
                    show.bell()
                if asked["exit_on_alarm"] and following.is_alarmed:
                    return 4
            while not ended:  # everything is over, and may be looked at
                page.wait(LOOK_S)
                page.show(following.views)
    return 0
