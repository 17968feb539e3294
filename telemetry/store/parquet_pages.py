"""The counts and sizes that a Parquet file states of its pages, checked against the file before polars trusts them.

polars reserves memory for as many values as a page header says. Of one that says -123 it wants exabytes, and ends
the process. A file of ours has a checksum against damage; one without, or one that was made to harm, has only this.
Footer and page headers are structures of Thrift's compact protocol, read here without their names.
"""

from __future__ import annotations

from typing import Any

MAGIC = b"PAR1"
MOST_ROWS, LARGEST_PAGE = 1 << 27, 1 << 28
DEEPEST = 16
# Thrift's types, and the fields of Parquet's structures that are looked at.
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
ROW_GROUPS, COLUMNS, GROUP_ROWS, CHUNK = 4, 1, 3, 3
VALUES, COMPRESSED, DATA_AT, DICTIONARY_AT = 5, 7, 9, 11
PAGE_SIZE, PAGE_COMPRESSED, DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 2, 3, 5, 7, 8
Fields = dict[int, Any]


def check(content: bytes) -> None:
    """Raises ValueError if a page is said to hold what this file cannot hold."""
    if len(content) < 12 or content[-4:] != MAGIC:
        raise ValueError("it is no whole Parquet file")
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    if end < len(MAGIC):
        raise ValueError("its footer is longer than the file")
    try:
        footer, _ = _struct(content, end, 0)
        for group in footer[ROW_GROUPS]:
            for column in group[COLUMNS]:
                _check_pages(content, end, column[CHUNK], group[GROUP_ROWS])
    except (LookupError, TypeError) as error:
        raise ValueError("its description cannot be read") from error


def _check_pages(content: bytes, footer_at: int, chunk: Fields, rows: int) -> None:
    values, at = chunk[VALUES], min(chunk[DATA_AT], chunk.get(DICTIONARY_AT) or chunk[DATA_AT])
    end = at + chunk[COMPRESSED]
    if not (0 <= rows <= values <= MOST_ROWS and 0 < at <= end <= footer_at):
        raise ValueError(f"a column of it is said to have {values} values in bytes {at} to {end}")
    held = 0
    while at < end:
        page, at = _struct(content, at, 0)
        count = next((page[kind][1] for kind in (DATA_PAGE, DATA_PAGE_V2) if kind in page), 0)
        entries = page[DICTIONARY_PAGE][1] if DICTIONARY_PAGE in page else 0
        held, at = held + count, at + page[PAGE_COMPRESSED]
        sizes_fit = page[PAGE_COMPRESSED] >= 0 and 0 <= page[PAGE_SIZE] <= LARGEST_PAGE and at <= end
        if not (sizes_fit and 0 <= count <= values and 0 <= entries <= values):
            raise ValueError(f"a page of it is said to have {count} of {values} values, and end at byte {at}")
    if held != values:
        raise ValueError(f"the pages of a column have {held} values, and not {values}")


def _struct(data: bytes, at: int, depth: int) -> tuple[Fields, int]:
    """The fields of a structure by their numbers, and where it ends."""
    if depth > DEEPEST:
        raise ValueError("its description is too deep")
    fields: Fields = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _integer(data, at)
        fields[number], at = _value(data, at, head & 15, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (I16, I32, I64):
        return _integer(data, at)
    if kind == BINARY:
        length, at = _varint(data, at)
        return None, at + length
    if kind == STRUCT:
        return _struct(data, at, depth + 1)
    if kind in (LIST, SET):
        return _list(data, at, depth + 1)
    if kind in (TRUE, FALSE):
        return kind == TRUE, at
    if kind in (BYTE, DOUBLE):
        return None, at + (1 if kind == BYTE else 8)
    raise ValueError("its description has a type that Parquet has not")


def _list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    head = data[at]
    count, at = (head >> 4, at + 1) if head >> 4 < 15 else _varint(data, at + 1)
    values = []
    for _ in range(count):
        if head & 15 in (TRUE, FALSE):
            value, at = data[at] == TRUE, at + 1
        else:
            value, at = _value(data, at, head & 15, depth)
        values.append(value)
    return values, at


def _integer(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("its description has a number of more than 64 bits")
