"""Plain text: a file is a document. Bytes that are not UTF-8 survive as they are."""

from collections.abc import Iterator
from pathlib import Path

from gputel.trainer.data.layout import Layout

CONTROL = set(range(32)) - set(b"\t\n\r\f\v\x1b\b")


def recognizes(head: bytes) -> bool:
    """No control bytes, and UTF-8 but for a character that the end of the head may have cut."""
    if CONTROL & set(head):
        return False
    try:
        head.decode()
    except UnicodeDecodeError as fault:
        return fault.start >= len(head) - 3 or recognizes_latin(head)
    return True


def recognizes_latin(head: bytes) -> bool:
    """Mostly ASCII with a few bytes above: an old encoding; tokens in binary are never that tame."""
    return sum(byte >= 128 for byte in head) < len(head) / 20


def documents(path: Path) -> Iterator[str]:
    yield path.read_bytes().decode("utf-8", "surrogateescape")


def fault(path: Path) -> str | None:
    with path.open("rb") as file:
        while block := file.read(2**20):
            if b"\0" in block:
                return "holds zero bytes, as no text does"
    return None


TEXT = Layout("text", (".txt", ".md", ".py"), recognizes, fault, documents=documents)
