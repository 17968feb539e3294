"""Lines in UTF-16, GBK, Big5, Shift-JIS, EUC-JP, EUC-KR, or in code page 1251 or 1252 -> lines in UTF-8.

UTF-16, in which PowerShell writes, shows in a log's first bytes. The others do not: a log is taken for one of them
once a line that is no UTF-8 holds a word of a training in it, such as `损失` or `손실`; lines before that stay as
they are. Lines that are UTF-8 always stay.
"""

from __future__ import annotations

import codecs
from dataclasses import replace
from functools import cache

from gputel.analysis.logs.lines import Chunk

WORDS = {
    "gb18030": "损失 训练 学习率 准确率 验证 轮次 步数 迭代",
    "cp950": "損失 訓練 學習率 準確率 驗證 輪次 步數",
    "cp932": "損失 学習 精度 正解率 検証 エポック ステップ",
    "euc_jp": "損失 学習 精度 正解率 検証 エポック ステップ",
    "cp949": "손실 학습 정확도 검증 에폭 스텝",
    "cp1251": "отери поха бучени очност алидаци шибка",
    "cp1252": "époque Époque étape Étape itération précision pérdida Pérdida Época época validación acurácia",
}


_MARKS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_ENOUGH = 4  # bytes that show UTF-16 without a mark: two letters, each with a NUL byte beside it


def _utf16(begin: bytes) -> str | None:
    """The kind of UTF-16 that a log with these first bytes is in."""
    high, low = begin[::2], begin[1::2]
    if len(begin) == _ENOUGH and begin.count(0) == len(high) and not (any(high) and any(low)):
        return "utf-16-le" if any(high) else "utf-16-be"
    return _MARKS.get(begin[:2])


def _may_begin(begin: bytes) -> bool:
    """Whether more bytes may show that a log is in UTF-16."""
    return begin[:2] not in _MARKS and (len(begin) < 2 or 0 in begin[:2])


class Utf16:
    """Decodes the bytes of one log, in any pieces, that begins with the mark of UTF-16 or with letters in it."""

    def __init__(self) -> None:
        self._begin: bytes | None = b""  # the first bytes, until there are enough of them
        self._decoder: codecs.IncrementalDecoder | None = None

    def decode(self, data: bytes) -> bytes:
        """The bytes in UTF-8; the same bytes where they are not in UTF-16."""
        if self._begin is not None:
            data = self._begin + data
            self._begin = data if len(data) < _ENOUGH and _may_begin(data) else None
            if self._begin is not None:
                return b""
            if name := _utf16(data[:_ENOUGH]):
                self._decoder = codecs.getincrementaldecoder(name)("replace")
                data = data[2:] if data[:2] in _MARKS else data
        return self._decoder.decode(data).encode(errors="replace") if self._decoder else data

    def rest(self) -> bytes:
        """What waits for more bytes when the log ends."""
        return self._begin or b""


class Decoder:
    """Decodes the chunks of one log, in the order of the file."""

    def __init__(self) -> None:
        self.encoding: str | None = None  # None: UTF-8, as far as is known

    def decode(self, chunk: Chunk) -> Chunk:
        """The chunk in UTF-8; the same chunk where nothing needs decoding."""
        if chunk.data.isascii() or _is_utf8(chunk.data):
            return chunk
        lines = chunk.data.split(b"\n")
        decoded = b"\n".join(line if _is_utf8(line) else self._line(line) for line in lines)
        return chunk if decoded == chunk.data else replace(chunk, data=decoded, starts=None)

    def _line(self, line: bytes) -> bytes:
        self.encoding = self.encoding or _guess(line)
        return line.decode(self.encoding, "replace").encode() if self.encoding else line


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _guess(line: bytes) -> str | None:
    """The encoding in which most words of a training stand in the line."""
    counts = {name: sum(word in line for word in words) for name, words in _encoded_words().items()}
    best = max(counts, key=lambda name: counts[name])
    try:
        line.decode(best)
    except UnicodeDecodeError:
        return None
    return best if counts[best] else None


@cache
def _encoded_words() -> dict[str, list[bytes]]:
    return {name: [word.encode(name) for word in words.split()] for name, words in WORDS.items()}
