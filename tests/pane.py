"""A real terminal for tests: tmux draws it, and says what stands there."""

import os
import shlex
import subprocess
from pathlib import Path

from tests.recordings import until


class Pane:
    """A terminal of 80 by 24, and a server of its own."""

    def __init__(self, folder: Path) -> None:
        self._env = {**os.environ, "TMUX_TMPDIR": str(folder), "XDG_STATE_HOME": str(folder / "state")}
        for name in ("TMUX", "NO_COLOR", "COLUMNS", "LINES"):
            self._env.pop(name, None)
        self._folder = folder

    def tmux(self, *words: str) -> str:
        answer = subprocess.run(
            ["tmux", "-f", "/dev/null", *words],
            env=self._env,
            cwd=self._folder,
            capture_output=True,
            text=True,
        )
        return answer.stdout

    def run(self, command: str, **variables: str) -> None:
        """What it ended with is shown behind it."""
        given = " ".join(f"{name}={value}" for name, value in variables.items())
        script = f"{given} {command}; echo ended with $?; sleep 1000"
        self.tmux("new-session", "-d", "-x", "80", "-y", "24", f"sh -c {shlex.quote(script)}")

    def text(self, *options: str) -> str:
        return self.tmux("capture-pane", "-p", *options)

    def until(self, *expected: str) -> str:
        """Wait for all of these words; gives the screen on which they stand."""
        shown = ""

        def stand() -> bool:
            nonlocal shown
            shown = self.text()
            return all(words in shown for words in expected)

        until(stand, lambda: f"{expected} on\n{shown}")
        return shown
