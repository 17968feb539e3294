"""A file -> an object in a bucket of S3, and a signed link to it; keys and endpoint are in the AWS_* variables."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from gputel.telemetry.errors import GputelError

LONGEST_S = 7 * 86_400.0  # S3 signs no link for longer
HTML = "text/html; charset=utf-8"


@dataclass(frozen=True)
class ObjectPlace:
    """Where an object goes: `s3://bucket/key`."""

    bucket: str
    key: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


def place(address: str, name: str) -> ObjectPlace:
    """Reads `s3://bucket/folder/` or `s3://bucket/page.html`; `name` is used below a folder."""
    parts = urlsplit(address)
    key = parts.path.lstrip("/")
    if parts.scheme != "s3" or not parts.netloc or parts.query or parts.fragment or "@" in parts.netloc:
        raise GputelError(address, "is no place in S3", "write it as s3://bucket/folder/", exit_code=2)
    if not key.endswith(".html"):
        key = f"{key.rstrip('/')}/{name}".lstrip("/")
    return ObjectPlace(parts.netloc, key)


def send(page: bytes, where: ObjectPlace, expires_s: float) -> str:
    """Writes the page; returns a link that anybody can open until it expires."""
    obstore = _library()
    try:
        store = obstore.store.S3Store(where.bucket)
        obstore.put(store, where.key, page, attributes={"Content-Type": HTML})
        return str(obstore.sign(store, "GET", where.key, timedelta(seconds=min(expires_s, LONGEST_S))))
    except (obstore.exceptions.BaseError, OSError, ValueError) as error:
        hint = "see AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL"
        raise GputelError(str(where), _first_line(error), hint) from None


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _library() -> Any:
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError as error:
        raise GputelError("--to s3://", f"needs obstore: {error}", "pip install 'gputel[s3]'") from None
    return obstore
