"""`gputel record` saves what the code was beside the run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gputel.analysis.catalogue import facts_file


@pytest.mark.long
@pytest.mark.parametrize("options", [(), ("--no-source",)])
def test_named_file_is_saved_unless_no_source_says_otherwise(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    (tmp_path / "train.py").write_text('print("step 0 | loss 9.5")\n')
    words = ["record", "--simulate", "1xH100", "--out", "run", "--json", *options]
    done = subprocess.run(
        [sys.executable, "-m", "gputel", *words, "--", sys.executable, "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    saved = tmp_path / "run" / "source" / "files" / "train.py"
    assert saved.exists() == (not options)
    assert json.loads((tmp_path / "run" / "facts.json").read_text())["files"] == facts_file.sizes(
        tmp_path / "run"
    )
