"""`gputel formats`: what is shipped, and whether a format of the user reads its own samples."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.command import gputel

FORMAT = """
[[lines]]
name = "train"
role = "train"
needle = "update"
line = 'update <step>: <loss>'

[[samples]]
text = "update 3: 2.5"
rows = [{ kind = "train", step = 3, loss = %s }]
"""


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return gputel("formats", *words)


def test_list_names_every_format() -> None:
    result = run()
    assert result.returncode == 0
    assert "nanochat" in result.stdout
    assert "fairseq: json, simple and tqdm log formats" in result.stdout


def test_format_of_ones_own_that_reads_its_samples_is_fine(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(FORMAT % 2.5)
    result = run(tmp_path / "own.toml", "--json")
    assert result.returncode == 0
    assert json.loads(result.stdout)["formats"][0]["faults"] == []


def test_format_that_does_not_read_its_samples_is_an_error_that_says_where(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(FORMAT % 2.75)
    result = run(tmp_path / "own.toml")
    assert result.returncode == 1
    assert (
        "own: sample 1: row 1: loss is 2.5, expected 2.75; correct the format or its samples" in result.stderr
    )


def test_needle_that_its_own_line_lacks_is_named(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text((FORMAT % 2.5).replace('needle = "update"', 'needle = "updated"'))
    done = run(tmp_path / "own.toml")
    assert done.returncode == 1
    assert "'train' is never read: its needle 'updated' is not in 'update 3: 2.5'" in done.stderr


def test_slot_without_an_end_is_named(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text((FORMAT % 2.5).replace("<loss>", "<loss"))
    done = run(tmp_path / "own.toml")
    assert done.returncode == 1
    assert (
        "'train' has a slot without an end: <loss; write <loss>, or \\<loss for the text itself"
        in done.stderr
    )


def test_line_that_the_format_leaves_unread_is_shown(tmp_path: Path) -> None:
    text = (FORMAT % 2.5).replace('"update 3: 2.5"', '"update 3: 2.5\\ndev @3: 2.6\\ndone"')
    (tmp_path / "own.toml").write_text(text)
    done = run(tmp_path / "own.toml")
    assert done.returncode == 0
    assert "unread   dev @3: 2.6\n" in done.stdout


def test_line_that_fits_no_sample_is_named_first(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text((FORMAT % 2.5).replace("update <step>:", "update <step> ="))
    done = run(tmp_path / "own.toml")
    assert done.stderr.startswith("error: own: 'train' fits no line of the samples")
