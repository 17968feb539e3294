"""How `name value` pairs are written on a line: each style is one regex that formats refer to by name.

Every regex has the groups `key` and `value`; some have `also`, the second number of a pair, in brackets. Since a
line may hold anything any number of times, a key begins where a word does, and has an end.
"""

from __future__ import annotations

import re
from functools import lru_cache

from gputel.analysis.parse import lazily

_NUMBER_AHEAD = r"(?=[-+.]?\d|[+-]?(?i:nan|inf)\b)"


def _key(without: str) -> str:
    """Some words, none of which holds any of these characters."""
    return (
        rf"(?<![A-Za-z])(?P<key>[A-Za-z][^{without}\s]{{0,80}}(?:\s{{1,20}}[^{without}\s]{{1,80}}){{0,9}}?)"
    )


def _after_key(without: str, end: str) -> str:
    """A sign, or nothing but a blank before a number behind which no sign follows."""
    return rf"(?:\s*[:=]\s*|\s+{_NUMBER_AHEAD}(?=[^{without}]{{0,120}}{end}))"


STYLES: dict[str, str] = {
    # | lm loss: 2.198845E+00 | lr 8.3916e-07 | norm:15.4 (+0.1)| elapsed time per iteration (ms): 106.4 |
    "bars": _key("|:=")
    + _after_key("|:=", r"(?:\||$)")
    + r"(?P<value>[^|(\s]*(?:\s+[^|(\s]+)*)(?:\s*\((?P<also>[^()|]*)\))?\s*(?:\||$)",
    # loss 10.9733, time 42422.97ms, mfu -100.00%   or   lr: 1.396e-07, eta: 1 day, 0:09:32, loss: 3.7080
    "commas": _key(",;:=")
    + _after_key(",;:=", "(?:[,;]|$)")
    + r"(?P<value>(?:\d+ days?, )?[^,;(\s]*(?:(?:\s+|,(?=\d{3}))[^,;(\s]+)*)"
    r"(?:\s*\((?P<also>[^(),]*)\))?\s*(?:[,;]|$)",
    # - loss: 1.7197 - acc: 0.5893
    "dashes": r"(?<!\s)\s+-\s+(?P<key>[A-Za-z][^:]{0,200}?):\s*"
    r"(?P<value>\S*(?:\s+(?!-\s)\S+)*?)(?=\s+-\s|\s*$)",
    # loss:2.085 lr:2e-05   step=3 loss=2.1   loss:  3.11665  memory: 93.46GiB(52.40%)  loss: 6.8536 (6.9458)
    "words": r"(?<![A-Za-z_])(?P<key>[A-Za-z_][\w./@%-]{0,200})\s*[:=]\s*"
    r"(?P<value>[^\s,;(|\]}]+(?:,\d{3}[^\s,;(|\]}]*)*)(?:\s?\((?P<also>[^()]*)\))?",
    # lr: 1.0e-03  recall@thr=0.5: 0.2222  max mem: 3524: two blanks or a tab between pairs
    "columns": r"(?<![A-Za-z_])(?P<key>[A-Za-z_][^:\s]{0,80}(?: [^:\s]{1,80}){0,9}):\s*"
    r"(?P<value>(?:\d+ days?, )?[^\s(]+)(?:\s?\((?P<also>[^()]*)\))?",
    # {'loss': 2.2818, "eval_loss": "4.83"}
    "quoted": r"""["'](?P<key>[^"']{1,400})["']\s*:\s*(?P<q>["'])?(?P<value>(?(q)[^"']*|[^,{}\[\]]*))""",
}


@lru_cache(maxsize=64)
def pairs(style: str) -> re.Pattern[bytes]:
    """A style by its name, or a regex of a format's own."""
    return lazily.regex(STYLES.get(style, style).encode())
