"""A process that searches lines with regular expressions, and dies of a search that takes too long.

`timed_regex` asks it on behalf of threads. Both sides are here: this file is run by its path, with Python's own
library, and its argument is the number of a socket. An answer says that the search ended.
"""

from __future__ import annotations

import atexit
import re
import signal
import subprocess
import sys
import threading
from multiprocessing.connection import Connection, Pipe

Question = tuple[bytes, int, str, bytes, int, int, float]
"""The regex and its flags, the method of it, the line, where to begin and to stop, the seconds that it may take."""


class SearchProcess:
    """Is started by the first search, and anew after one that did not end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def ends(self, question: Question) -> bool:
        """Whether the search ends within its limit; one whose process ended for another reason is made again."""
        with self._lock:
            while True:
                connection = self._connection or self._start()
                try:
                    connection.send(question)
                    connection.recv_bytes()
                except (EOFError, OSError):
                    if self.close() == -signal.SIGPROF:
                        return False
                else:
                    return True

    def close(self) -> int | None:
        """Ends the process; returns how it ended."""
        atexit.unregister(self.close)
        ended = None
        if self._connection and self._process:
            self._connection.close()
            ended = self._process.wait()
        self._process = self._connection = None
        return ended

    def _start(self) -> Connection:
        ours, theirs = Pipe()
        with theirs:
            command = [sys.executable, "-I", "-S", __file__, str(theirs.fileno())]
            # In a session of its own, for Ctrl-C is not meant for it.
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], start_new_session=True)
        self._connection = ours
        atexit.register(self.close)
        ours.recv_bytes()  # the limit of the first search does not count the start
        return ours


PROCESS = SearchProcess()


def _serve(connection: Connection) -> None:
    connection.send_bytes(b"ready")
    while True:
        try:
            question: Question = connection.recv()
        except EOFError:
            return
        source, flags, method, line, start, end, limit_s = question
        regex = re.compile(source, flags)
        # its signal has no handler and ends the process, in `re` too
        signal.setitimer(signal.ITIMER_PROF, limit_s)
        found = getattr(regex, method)(line, start, end)
        if method == "finditer":
            list(found)
        signal.setitimer(signal.ITIMER_PROF, 0)
        connection.send_bytes(b"ended")


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
