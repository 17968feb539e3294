"""Runs a command of gputel within the process of the tests, where it need not load its libraries again."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

import pytest

from gputel.cli import main


def gputel(
    *words: str | Path, given: bytes = b"", cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What the command prints and exits with; `given` is its standard input."""
    source, out, err = (io.TextIOWrapper(io.BytesIO(data), encoding="utf-8") for data in (given, b"", b""))
    with (
        pytest.MonkeyPatch.context() as patch,
        warnings.catch_warnings(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(sys, "stdin", source)
        for name, value in (env or {}).items():
            patch.setenv(name, value)
        if cwd:
            patch.chdir(cwd)
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        printed = [_text(stream) for stream in (out, err)]
    return subprocess.CompletedProcess(words, int(ended.value.code or 0), *printed)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()
