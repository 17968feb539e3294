"""jsonl: every line is an object with the key `text`."""

import json
from collections.abc import Iterator
from pathlib import Path

from gputel.trainer.data.layout import Layout


def recognizes(head: bytes) -> bool:
    first = head.split(b"\n", 1)[0].strip()
    return first.startswith(b"{") and b'"text"' in head


def documents(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)["text"]


def fault(path: Path) -> str | None:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError:
                return f"line {number} is no JSON; was the file cut?"
            if not isinstance(row, dict) or not isinstance(row.get("text"), str):
                return f'line {number} has no "text"'
    return None


JSONL = Layout("jsonl", (".jsonl", ".ndjson"), recognizes, fault, documents=documents)
