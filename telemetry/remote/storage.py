"""Object storage behind one address, by obstore: `s3://bucket/folder`, `gs://`, `az://`, `https://`, `file:///`."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from gputel.telemetry.errors import GputelError
from gputel.telemetry.secrets import mask

if TYPE_CHECKING:
    from obstore.store import ObjectStore, S3Store

ADDRESS = re.compile(r"(?:s3|gs|az|https?|file)://.")
SIGNING = ("s3", "gs", "az")
WRITABLE = (*SIGNING, "file")
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
PLAIN_HTTP = "GPUTEL_S3_ALLOW_HTTP"
KEYS = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
LONGEST_WAIT = timedelta(seconds=60)  # until a server that fails is given up
PAGE = 1000  # names in an answer to one request for a list
UNORDERED = "--x-s3"  # ends the names of buckets that list in no order
LONGEST_FAULT = 200  # letters of what a library says
NO_RIGHT = "the key has no right to do this", "reading needs get and list, sending needs put"
REFUSED = "the key or the token is not accepted"
SIGNS = (
    ("Unable to canonicalize filesystem root", "nothing is here", ""),
    ("NoSuchBucket", "there is no such bucket", "make it first"),
    ("<Code>SignatureDoesNotMatch<", REFUSED, "is the secret of this key right?"),
    ("<Code>InvalidAccessKeyId<", REFUSED, "is it a key of this endpoint?"),
    ("<Code>ExpiredToken<", REFUSED, "it has expired"),
    ("<Code>InvalidToken<", REFUSED, "is it expired?"),
    ("status code: 403", *NO_RIGHT),  # of a list it has no exception of its own
    (
        "169.254.169.254",  # where a machine of a cloud has its keys
        "no keys are in the environment",
        'eval "$(aws configure export-credentials --format env)" sets those of a profile',
    ),
    ("builder error", "its endpoint is plain http", f"{PLAIN_HTTP}=1 allows it"),
    ("Connection refused", "its endpoint cannot be reached", "check its address and the network"),
    ("kind: Timeout", "its endpoint does not answer", "check its address and the network"),
    ("dns error", "its endpoint cannot be reached", "check its address and the network"),
)
"""What stands in a library's text, the fault that it means, and what to do."""


@dataclass(frozen=True)
class StoredObject:
    """An object in a listing."""

    name: str
    size: int
    modified: datetime
    tag: str


def is_address(word: str) -> bool:
    """Whether an argument names object storage, and no file."""
    return ADDRESS.match(word) is not None


def is_signing(word: str) -> bool:
    """Whether the storage gives links to those who have no key."""
    return is_address(word) and urlsplit(word).scheme in SIGNING


def is_writable(word: str) -> bool:
    return is_address(word) and urlsplit(word).scheme in WRITABLE


class Storage:
    """Everything below one address; names are relative to it. Faults are GputelErrors that name the address."""

    def __init__(self, address: str, *, create: bool = False) -> None:
        """`create` makes the folder of a `file://` address."""
        self._address = address.rstrip("/")
        self.address = mask(self._address)
        if find_spec("obstore") is None:
            fault = "reading and writing object storage needs obstore"
            raise GputelError(self.address, fault, "pip install 'gputel[s3]'", exit_code=2)
        with self._faults():
            self._store = _open(self._address, create=create)

    @property
    def lists_nothing(self) -> bool:
        """Whether objects can be asked for by name only, as of a plain web server."""
        return urlsplit(self._address).scheme in ("http", "https")

    def itself(self) -> bytes:
        """The content of the object that the address names."""
        above, _, name = self._address.rpartition("/")
        content = Storage(above).find(name)
        if content is None:
            raise GputelError(self.address, "nothing is here")
        return content

    def put(self, name: str, content: bytes, kind: str | None = None) -> None:
        """Writes an object, or replaces it; `kind` is its media type, such as `text/html`."""
        import obstore

        with self._faults():
            obstore.put(self._store, name, content, attributes={"Content-Type": kind} if kind else None)

    def put_new(self, name: str, content: bytes) -> bool:
        """Writes an object unless its name is taken; returns whether it was free."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with self._faults():
            try:
                obstore.put(self._store, name, content, mode="create")
            except AlreadyExistsError:
                return False
        return True

    def get(self, name: str) -> bytes:
        import obstore

        with self._faults():
            return bytes(obstore.get(self._store, name).bytes())

    def find(self, name: str) -> bytes | None:
        """The content of an object; None if there is none."""
        import obstore

        with self._faults():
            try:
                return bytes(obstore.get(self._store, name).bytes())
            except FileNotFoundError:
                return None

    def delete(self, name: str) -> None:
        import obstore

        with self._faults():
            obstore.delete(self._store, name)

    def link(self, name: str, expires_s: float) -> str:
        """An address at which anybody can read an object until it expires."""
        import obstore

        with self._faults():
            return str(obstore.sign(cast("S3Store", self._store), "GET", name, timedelta(seconds=expires_s)))

    def beginning(self, name: str, size: int) -> bytes:
        import obstore

        with self._faults():
            return bytes(obstore.get_range(self._store, name, start=0, length=size))

    def objects(self, known: Iterable[Sequence[StoredObject]] = ()) -> list[StoredObject]:
        """All of them, in order of their names.

        Each of `known` is a row of objects without others between them, which are never replaced: where a store can
        begin its list behind a name, only the first of a long row is listed again.
        """
        parts = urlsplit(self._address)
        is_ordered = parts.scheme == "s3" and not parts.netloc.endswith(UNORDERED)
        rows = {row[0]: row for row in known if is_ordered and len(row) > PAGE}
        listed: list[StoredObject] = []
        offset: str | None = ""
        while offset is not None:
            start, offset = offset, None
            for each in self._listed(start):
                listed.append(each)
                if row := rows.pop(each, None):
                    listed += row[1:]
                    offset = row[-1].name
                    break
        return sorted(listed, key=lambda each: each.name)

    def _listed(self, offset: str) -> Iterator[StoredObject]:
        """The objects behind a name, a request for each page as it is asked for."""
        import obstore

        with self._faults():
            for page in obstore.list(self._store, offset=offset or None, chunk_size=PAGE):
                for each in page:
                    yield StoredObject(each["path"], each["size"], each["last_modified"], each["e_tag"] or "")

    @contextmanager
    def _faults(self) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            fault, hint = _explanation(error)
            raise GputelError(self.address, fault, hint) from None


def _open(address: str, *, create: bool) -> ObjectStore:
    from obstore.store import from_url

    parts = urlsplit(address)
    if parts.scheme == "file":
        return from_url(address, mkdir=create)
    options: dict[str, Any] = {
        "client_options": {"connect_timeout": "5 seconds", "allow_http": _may_be_plain(address)},
        "retry_config": {"max_retries": 8, "retry_timeout": LONGEST_WAIT},
    }
    if parts.scheme == "s3" and not any(map(os.environ.get, KEYS)):
        options |= _keys_of_boto3()
    return from_url(address, **options)


def _may_be_plain(address: str) -> bool:
    """Whether requests may go out unencrypted: to this machine, or where the user says so."""
    endpoints = (os.environ[name] for name in ENDPOINTS if os.environ.get(name))
    server = next(endpoints, "") if address.startswith("s3:") else address
    return bool(os.environ.get(PLAIN_HTTP)) or is_loopback(urlsplit(server).hostname)


def is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def _keys_of_boto3() -> dict[str, Any]:
    """The keys of a profile in ~/.aws, which boto3 can read and obstore cannot."""
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        return {}
    try:
        return {"credential_provider": Boto3CredentialProvider()}
    except ValueError:  # it knows none
        return {}


def _explanation(error: Exception) -> tuple[str, str]:
    """The fault in one line without secrets, and how to fix it."""
    from obstore import exceptions

    text = str(error)
    if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in text:
        return "nothing is here", ""
    for sign, fault, hint in SIGNS:
        if sign in text:
            return fault, hint
    if isinstance(error, exceptions.PermissionDeniedError):
        return NO_RIGHT
    if isinstance(error, exceptions.UnauthenticatedError):
        return REFUSED, "is it expired?"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return mask(lines[0] if lines else type(error).__name__)[:LONGEST_FAULT], ""
