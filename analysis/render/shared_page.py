"""A page that gputel wrote -> the page to send: secrets masked once more, homes of users written as `~`.

Its script, its styles and its packed numbers stay as they are: the page's own policy names their hashes.
"""

from __future__ import annotations

import json
import re
from html import escape, unescape
from typing import Any

from gputel.analysis.render.html import embedded_json
from gputel.telemetry.secrets import mask

BLOCK = re.compile(r"(<(?:script|style)\b[^>]*>)(.*?)(</(?:script|style)>)", re.DOTALL)
TAG = re.compile(r"(<[^>]*>)")
ATTRIBUTE = re.compile(r'\b(aria-label|title|href|data-target)="([^"]*)"')
HOME = re.compile(r"/(?:home|Users)/[^/\s\"'<>]+|/root(?![^/\s\"'<>])")
DATA = 'id="panels"'


def shared_page(page: bytes) -> bytes:
    """The page as it may leave the machine."""
    parts = BLOCK.split(page.decode("utf-8", errors="replace"))
    done = []
    for at in range(0, len(parts) - 1, 4):
        words, begin, content, end = parts[at : at + 4]
        data = embedded_json(_clean(json.loads(content))) if DATA in begin else content
        done += [_cleaned(words), begin, data, end]
    return "".join([*done, _cleaned(parts[-1])]).encode()


def _cleaned(words: str) -> str:
    """The markup with clean text and clean attributes."""
    pieces = TAG.split(words)
    return "".join(_tag(piece) if at % 2 else _escaped(piece) for at, piece in enumerate(pieces))


def _tag(tag: str) -> str:
    if tag.startswith("<meta"):
        return tag
    return ATTRIBUTE.sub(lambda match: f'{match[1]}="{_escaped(match[2])}"', tag)


def _escaped(words: str) -> str:
    return escape(_text(unescape(words)))


def _clean(data: Any) -> Any:
    if isinstance(data, str):
        return _text(data)
    if isinstance(data, dict):
        return {name: _clean(value) for name, value in data.items()}
    return [_clean(value) for value in data] if isinstance(data, list) else data


def _text(words: str) -> str:
    return HOME.sub("~", mask(words))
