"""Which files are no text, by their first bytes."""

from __future__ import annotations

import gzip
import io
import pickle
import random
import sys
import tarfile
import zipfile

import numpy as np
import polars as pl
import pytest

from gputel.analysis.logs import binary

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LINES = "step 1 | loss: 2.5 | lr 1e-4\n" * 40


def zipped() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("data.pkl", LINES)
    return packed.getvalue()


def tarred() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("train.log"))
    return packed.getvalue()


def saved_array() -> bytes:
    packed = io.BytesIO()
    np.save(packed, np.arange(10))
    return packed.getvalue()


def parquet() -> bytes:
    packed = io.BytesIO()
    pl.DataFrame({"loss": [1.0]}).write_parquet(packed)
    return packed.getvalue()


def tensors() -> bytes:
    header = b'{"weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    return len(header).to_bytes(8, "little") + header + bytes(8)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (zipped(), "zip archive or PyTorch checkpoint"),
        (tarred(), "tar archive"),
        (pickle.dumps({"loss": 1.0}, protocol=4), "Python pickle"),
        (saved_array(), "NumPy array"),
        (parquet(), "Parquet"),
        (tensors(), "safetensors"),
        (random.Random(5).randbytes(4096), "binary data"),
        (np.linspace(0, 1, 900, dtype=np.float32).tobytes(), "binary data"),
    ],
    ids="zip tar pickle array parquet tensors random floats".split(),
)
def test_file_that_is_no_text_has_its_kind(data: bytes, kind: str) -> None:
    assert binary.kind(data) == kind


@pytest.mark.parametrize(
    "text",
    [
        b"",
        LINES.encode(),
        LINES.encode("utf-16"),
        LINES.encode("utf-16-le"),
        "第 3 轮 损失 2.5\n".encode("gbk") * 30,
        "第 3 轮 損失 2.5\n".encode("shift-jis", errors="ignore") * 30,
        b"\x1b[32mloss\x1b[0m 2.5\r\x08\x08 loss 2.4\n" * 30,
        bytes(9000) + LINES.encode(),
        bytes(200) + LINES.encode(),
        gzip.compress(LINES.encode()),
        zstd.compress(LINES.encode()),
    ],
    ids=[
        "empty",
        "ascii",
        "utf-16",
        "utf-16-le",
        "gbk",
        "shift-jis",
        "terminal",
        "hole",
        "short hole",
        "gzip",
        "zstd",
    ],
)
def test_text_in_any_encoding_has_none(text: bytes) -> None:
    assert binary.kind(text) is None
