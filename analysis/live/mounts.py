"""What the filesystem of a path means for following it: changes are told, or looked for."""

from __future__ import annotations

import re
from pathlib import Path

REMOTE = re.compile(
    r"nfs\d*|cifs|smb\w*|9p|afs|ceph|lustre|gpfs|beegfs\w*|glusterfs|orangefs|panfs|weka\w*|virtiofs"
    r"|fuse\.(?:sshfs|s3fs|gcsfuse|juicefs|glusterfs|rclone|goofys|mount-s3|ceph.*|seaweedfs|blobfuse.*)"
)
LAYERED = ("overlay", "aufs", "fuse.fuse-overlayfs")


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
