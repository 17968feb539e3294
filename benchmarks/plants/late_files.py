"""A file system of one file, `data`, that answers each read late while `SOURCE.late` holds seconds. As root.

Arguments: FOLDER to mount it on, SOURCE. It speaks the protocol of /dev/fuse, as programs behind a network do, so
that the kernel lets readers wait as for those. It ends when it is unmounted.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
import threading
import time
from pathlib import Path

HEAD, REPLY = struct.Struct("<IIQQIIII"), struct.Struct("<IiQ")
ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")
LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, BATCH_FORGET = 1, 2, 3, 14, 15, 18, 25, 26, 42
ROOT, FILE = 1, 2
DIRECT_IO = 1
BUFFER = 1 << 18
READERS = 4
ENOENT, ENOSYS = 2, 38


class LateFiles:
    """Answers requests; each thread takes the next one."""

    def __init__(self, source: Path) -> None:
        self.device = os.open("/dev/fuse", os.O_RDWR)
        self.source, self.late = source, source.with_suffix(".late")
        self.file = os.open(source, os.O_RDONLY)

    def serve(self) -> None:
        while True:
            try:
                request = os.read(self.device, BUFFER)
            except OSError:  # unmounted
                return
            _, kind, unique, node, *_ = HEAD.unpack_from(request)
            if kind in (FORGET, BATCH_FORGET):
                continue
            found = self._answer(kind, node, request[HEAD.size :])
            error, body = (-found, b"") if isinstance(found, int) else (0, found)
            os.write(self.device, REPLY.pack(REPLY.size + len(body), error, unique) + body)

    def _answer(self, kind: int, node: int, body: bytes) -> bytes | int:
        """The answer, or an error's number."""
        if kind == INIT:
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, 1 << 16, 0, 16, 8, 1 << 17, 1, 32, 0, 0)
        if kind == LOOKUP:
            entry = struct.pack("<QQQQII", FILE, 0, 60, 60, 0, 0)
            return entry + self._attributes(FILE) if body == b"data\0" else ENOENT
        if kind == GETATTR:
            return struct.pack("<QII", 60, 0, 0) + self._attributes(node)
        if kind == OPEN:
            return struct.pack("<QII", 0, DIRECT_IO, 0)
        if kind == READ:
            _, place, size = struct.unpack_from("<QQI", body)
            if self.late.exists():
                time.sleep(float(self.late.read_text()))
            return os.pread(self.file, size, place)
        return b"" if kind in (RELEASE, FLUSH) else ENOSYS

    def _attributes(self, node: int) -> bytes:
        size = os.fstat(self.file).st_size if node == FILE else 0
        mode = stat.S_IFREG | 0o444 if node == FILE else stat.S_IFDIR | 0o755
        return ATTRIBUTES.pack(node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def main(folder: str, source: str) -> None:
    files = LateFiles(Path(source))
    options = f"fd={files.device},rootmode=40000,user_id=0,group_id=0,allow_other,max_read={1 << 17}"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"late_files", folder.encode(), b"fuse", 0, options.encode()):
        raise OSError(ctypes.get_errno(), "mount")
    threads = [threading.Thread(target=files.serve) for _ in range(READERS)]
    for thread in threads:
        thread.start()


if __name__ == "__main__" and sys.argv[1:]:
    main(sys.argv[1], sys.argv[2])
