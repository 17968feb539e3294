"""Whether a name is that of a secret, and whether a value under such a name may be one.

`API_KEY`, `hf-token` and `PGPASSWORD` are; `sort_key`, `pad_token` and `password_file` are not, nor is the value of
`pass=2`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

CERTAIN = frozenset(
    "password passwd passphrase passcode secret secrets credential credentials apikey authkey authtoken "
    "accesskey secretkey privatekey passwort".split()
)
"""A name with one of these words is of a secret, however it is written and whatever its value is."""
LIKELY = frozenset("key token pass pwd auth authorization bearer sig signature cookie sas pat".split())
"""A name that ends with one of these may be: `key` is, `sort_key` is not; neither is `pass=2`."""
NO_SECRET = frozenset(
    "sort primary foreign partition group cache map dict metric monitor column index lookup row shard join image "
    "text label prompt target input output dataset data feature state step batch json query primary order value "
    "pad eos bos unk sep cls mask special stop end start next first last per each one single new num max min "
    "total forward backward dry low high band by max two multi test tests rng jax prng random seed public hot "
    "dropout init params audio video think begin fim newline rate use no with without foot".split()
)
"""Words before `key`, `token` and `pass` that make an ordinary name of them: `pad_token`, `forward pass`."""
ABOUT = frozenset("file path dir folder length len policy stdin prompt type".split())
"""A name that ends with one of these is of something about a secret: `--password-file`, `token_path`."""
ORDINARY_VALUES = frozenset(
    "true false none null nil yes no on off auto default required optional basic digest".split()
)
WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
SMALL_NUMBER = re.compile(r"[+-]?\d{1,3}|[+-]?\d*\.\d+|[+-]?\d+(?:\.\d+)?[kKMGBT%]|\d+e[+-]?\d+")
VARIABLE = re.compile(r"\$\{?[A-Z_][A-Z0-9_]*\}?")


def is_secret_name(name: str) -> bool:
    """Whether a variable, option or tag of this name holds a secret."""
    words = words_of(name)
    if not words or words[-1] in ABOUT:
        return False
    return is_certain(name) or (words[-1] in LIKELY and not NO_SECRET.intersection(words[-2:-1]))


@lru_cache(maxsize=1024)
def is_certain(name: str) -> bool:
    """Also of words that are written together (`PGPASSWORD`) or apart (`access_key`)."""
    words = words_of(name)
    pairs = (first + second for first, second in pairwise(words))
    return any(
        word.endswith(certain) for word in (*words, *pairs) for certain in CERTAIN if len(certain) > 2
    ) or ("pw" in words)


@lru_cache(maxsize=1024)
def words_of(name: str) -> tuple[str, ...]:
    """`api`, `key` for `--api-key`, `API_KEY` and `apiKey`."""
    return tuple(word.lower() for word in WORDS.findall(name))


def is_ordinary(name: str, value: str) -> bool:
    """Whether a value is no secret, though its name is that of one: `auth=true`, `pass=2`, `PWD=/home/me`."""
    bare = value.strip("\"'")
    is_path = bare.startswith(("/", "~", "./", "../")) and words_of(name)[-1] in ("pwd", "key", "cookie")
    if is_certain(name):
        return not value or is_path or VARIABLE.fullmatch(bare) is not None
    return (
        bare.lower() in ORDINARY_VALUES
        or SMALL_NUMBER.fullmatch(bare) is not None
        or is_path
        or bare.startswith(("<", "$"))
        or not bare
    )
