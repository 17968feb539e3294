"""How `name value` pairs are written on a line: each style is one regex that formats refer to by name.

Every regex has the groups `key` and `value`; some have `also`, the second number of a pair, in brackets.
"""

from __future__ import annotations

import re
from functools import lru_cache

from gputel.analysis.parse import lazily

_NUMBER_AHEAD = r"(?=[-+.]?\d|[+-]?(?i:nan|inf)\b)"

STYLES: dict[str, str] = {
    # | lm loss: 2.198845E+00 | lr 8.3916e-07 | norm:15.4 (+0.1)| elapsed time per iteration (ms): 106.4 |
    "bars": r"[\s|]*(?P<key>[A-Za-z][^|:=]*?)(?:\s*[:=]\s*|\s+" + _NUMBER_AHEAD + r"(?=[^|:=]*(?:\||$)))"
    r"(?P<value>[^|(]*?)\s*(?:\((?P<also>[^()|]*)\))?\s*(?:\||$)",
    # loss 10.9733, time 42422.97ms, mfu -100.00%   or   lr: 1.396e-07, eta: 1 day, 0:09:32, loss: 3.7080
    "commas": r"[\s,;]*(?P<key>[A-Za-z][^,;:=]*?)(?:\s*[:=]\s*|\s+"
    + _NUMBER_AHEAD
    + r"(?=[^,;:=]*(?:[,;]|$)))"
    r"(?P<value>(?:\d+ days?, )?[^,;(]*?(?:,\d{3}[^,;(]*?)*)\s*(?:\((?P<also>[^(),]*)\))?\s*(?:[,;]|$)",
    # - loss: 1.7197 - acc: 0.5893
    "dashes": r"\s+-\s+(?P<key>[A-Za-z][^:]*?):\s*(?P<value>.*?)(?=\s+-\s|\s*$)",
    # loss:2.085 lr:2e-05   step=3 loss=2.1   loss:  3.11665  memory: 93.46GiB(52.40%)  loss: 6.8536 (6.9458)
    "words": r"(?P<key>[A-Za-z_][\w./@%-]*)\s*[:=]\s*"
    r"(?P<value>[^\s,;(|\]}]+(?:,\d{3}[^\s,;(|\]}]*)*)(?:\s?\((?P<also>[^()]*)\))?",
    # lr: 1.0e-03  recall@thr=0.5: 0.2222  max mem: 3524: two blanks or a tab between pairs
    "columns": r"(?P<key>[A-Za-z_][^:\s]*(?: [^:\s]+)*):\s*"
    r"(?P<value>(?:\d+ days?, )?[^\s(]+)(?:\s?\((?P<also>[^()]*)\))?",
    # {'loss': 2.2818, "eval_loss": "4.83"}
    "quoted": r"""["'](?P<key>[^"']+)["']\s*:\s*(?P<q>["'])?(?P<value>(?(q)[^"']*|[^,{}\[\]]*))""",
}


@lru_cache(maxsize=64)
def pairs(style: str) -> re.Pattern[bytes]:
    """A style by its name, or a regex of a format's own."""
    return lazily.regex(STYLES.get(style, style).encode())
