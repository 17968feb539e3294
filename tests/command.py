"""Runs a command of gputel within the process of the tests, where it need not load its libraries again."""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gputel.cli import main


def gputel(
    *words: str | Path, given: bytes = b"", cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What the command prints and exits with; `given` is its standard input."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with (
        pytest.MonkeyPatch.context() as patch,
        warnings.catch_warnings(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        _standard_input(given, patch),
        _collected_as_before(),
    ):
        for name, value in (env or {}).items():
            patch.setenv(name, value)
        if cwd:
            patch.chdir(cwd)
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        printed = [_text(stream) for stream in (out, err)]
    return subprocess.CompletedProcess(words, int(ended.value.code or 0), *printed)


@contextlib.contextmanager
def _collected_as_before() -> Iterator[None]:
    """A command has its process's garbage collected more rarely and not at its end; this process is not its own."""
    before = gc.get_threshold()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        atexit.unregister(gc.freeze)


@contextlib.contextmanager
def _standard_input(given: bytes, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """A file in place of descriptor 0, which some commands read themselves."""
    with tempfile.TemporaryFile() as file:
        file.write(given)
        file.seek(0)
        before = os.dup(0)
        os.dup2(file.fileno(), 0)
        try:
            patch.setattr(sys, "stdin", io.TextIOWrapper(file, encoding="utf-8"))
            yield
        finally:
            os.dup2(before, 0)
            os.close(before)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()
