"""What kind of filesystem a path is on, and what that means for following it: changes are told, or looked for."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

REMOTE = re.compile(
    r"nfs\d*|cifs|smb\w*|9p|afs|ceph|lustre|gpfs|beegfs\w*|glusterfs|orangefs|panfs|weka\w*|virtiofs"
    r"|fuse\.(?:sshfs|s3fs|gcsfuse|juicefs|glusterfs|rclone|goofys|mount-s3|ceph.*|seaweedfs|blobfuse.*)"
)
LAYERED = ("overlay", "aufs", "fuse.fuse-overlayfs")
MOUNTS = Path("/proc/self/mountinfo")


def kind(path: Path, mounts: Path = MOUNTS) -> str | None:
    """`ext4`, `nfs4`, `overlay`; None where the system does not say."""
    place = os.path.realpath(path)
    best, found = "", None
    for point, name in _mounts(mounts):
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, found = point, name
    return found


def is_told(name: str | None) -> bool:
    """Whether the kernel tells of every change there. Of a shared folder it tells only of this machine's own."""
    return name is None or not REMOTE.fullmatch(name)


def said(path: Path, name: str | None) -> str | None:
    """What a user has to know of it."""
    if name and REMOTE.fullmatch(name):
        return f"{path} is on {name}: looked at every second, since changes by other machines are not told"
    if name in LAYERED:
        return f"{path} is on {name}: what is written to a layer below is seen within a second"
    return None


def _mounts(mounts: Path) -> list[tuple[str, str]]:
    try:
        return list(_parsed(mounts.read_text()))
    except OSError:
        return []


@lru_cache(maxsize=4)
def _parsed(text: str) -> tuple[tuple[str, str], ...]:
    """(mount point, kind) in the order of the mounts; a later one lies over an earlier one."""
    found = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) > 4 and after:
            point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4])
            found.append((point, after.split()[0]))
    return tuple(found)
