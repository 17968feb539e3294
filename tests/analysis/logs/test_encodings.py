"""Logs in older encodings are read as those in UTF-8, in whatever pieces they come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gputel.analysis.logs.encodings import Decoder
from gputel.analysis.logs.lines import Splitter
from gputel.analysis.logs.log import Log
from gputel.analysis.logs.parser import Parser, make_parser

LOGS = {
    "gbk": "当前Batch：{i}/60 | 当前损失值：{loss:.3f} | 准确率：0.{i}%",
    "big5": "第{i}輪 | 訓練損失：{loss:.3f} | 準確率：0.{i}",
    "shift_jis": "エポック {i}/60 損失：{loss:.3f} 精度：0.{i}",
    "euc_jp": "エポック {i}/60 損失：{loss:.3f} 精度：0.{i}",
    "cp1251": "Эпоха {i}/60 | Потери: {loss:.3f} | Точность: 0.{i}",
    "cp1252": "Época {i}/60 | pérdida: {loss:.3f} | exactitud: 0.{i}",
    "euc_kr": "에폭 {i}/60 | 손실: {loss:.3f} | 정확도: 0.{i}",
}


def text(encoding: str) -> str:
    return "".join(LOGS[encoding].format(i=i, loss=9 / i) + "\n" for i in range(1, 10))


def records(data: bytes, size: int, conclude: Callable[[Parser], Log]) -> Any:
    parser = make_parser()
    for start in range(0, len(data), size):
        parser.feed(data[start : start + size])
    parser.finish()
    return conclude(parser).records


@pytest.mark.parametrize("encoding", LOGS)
def test_log_in_another_encoding_gives_the_records_of_utf_8(
    encoding: str, conclude: Callable[[Parser], Log]
) -> None:
    expected = records(text(encoding).encode(), 1 << 20, conclude)
    assert expected["loss"].to_list() == [round(9 / i, 3) for i in range(1, 10)]
    for size in (1 << 20, 7, 1):
        assert records(text(encoding).encode(encoding), size, conclude).equals(expected)


@pytest.mark.parametrize("data", [b"caf\xe9 loss 3\n", b"\xff\xfe\x00\x81 step 3\n", "损失 3\n".encode()])
def test_other_bytes_stay_as_they_are(data: bytes) -> None:
    decoder = Decoder()
    (chunk,) = Splitter().feed(data.replace(b"\x00", b""))
    assert decoder.decode(chunk) is chunk
    assert decoder.encoding is None


def test_lines_keep_their_numbers() -> None:
    (chunk,) = Splitter().feed("ok\n损失：1\n".encode("gbk") + "损失：2\n".encode())
    decoded = Decoder().decode(chunk)
    assert decoded.data.decode() == "ok\n损失：1\n损失：2\n"
    assert (decoded.first, decoded.starts) == (1, None)


@pytest.mark.parametrize("mark", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("encoding", ["gbk", "euc_kr", "cp1252"])
@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_log_of_powershell_gives_the_records_of_utf_8(
    mark: str, encoding: str, size: int, conclude: Callable[[Parser], Log]
) -> None:
    """PowerShell writes UTF-16; the line feed's byte is a part of other letters, too, such as that of `上`."""
    whole = "上\n" + text(encoding)
    data = ("\ufeff" + whole.replace("\n", "\r\n")).encode(mark)
    assert records(data, size, conclude).equals(records(whole.encode(), size, conclude))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_letters_show_utf_16_without_a_mark(
    encoding: str, size: int, conclude: Callable[[Parser], Log]
) -> None:
    whole = "Training: 开始\n" + text("gbk")
    assert records(whole.encode(encoding), size, conclude).equals(records(whole.encode(), size, conclude))


@pytest.mark.parametrize("data", [b"", b"\xff", b"\xfe\xff", b"a\x00", b"\x00" * 9, b"\xffstep 1 loss 2.5\n"])
def test_few_bytes_are_read_to_the_end(data: bytes) -> None:
    parser = make_parser()
    for at in range(len(data)):
        parser.feed(data[at : at + 1])
    parser.finish()
    assert parser.lines == (len(data) > 0 and data != b"\xfe\xff")
