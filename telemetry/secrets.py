"""Masks secrets in everything that is kept, shown or sent: command lines, variables, addresses, tags, texts.

A secret is known by its name (`--api-key X`), by its place (`mysql -pX`, `user:X@host`) or by its looks
(`ghp_...`). Names of runs and files that merely look like one are kept. Examples of both sides are in
tests/telemetry/secrets.toml, rule by rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePath
from typing import NamedTuple

MASK = "***"

CERTAIN = frozenset(
    "password passwd passphrase passcode secret secrets credential credentials apikey authtoken "
    "accesskey secretkey privatekey passwort".split()
)
"""A name with one of these words is of a secret, however it is written and whatever its value is."""
LIKELY = frozenset("key token pass pwd auth authorization sig signature cookie sas pat".split())
"""A name that ends with one of these may be: `key` is, `sort_key` is not; neither is `pass=2`."""
NO_SECRET = frozenset(
    "sort primary foreign partition group cache map dict metric monitor column index lookup row shard join image "
    "text label prompt target input output dataset data feature state step batch json query primary order value "
    "pad eos bos unk sep cls mask special stop end start next first last per each one single new num max min "
    "total forward backward dry low high band by max two multi test tests rng jax prng random seed public hot "
    "dropout init params audio video think begin fim newline rate use no with without foot".split()
)
"""Words before `key`, `token` and `pass` that make an ordinary name of them: `pad_token`, `forward pass`."""
ORDINARY_VALUES = frozenset(
    "true false none null nil yes no on off auto default required optional basic digest".split()
)
WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
SMALL_NUMBER = re.compile(r"[+-]?\d{1,3}|[+-]?\d*\.\d+|[+-]?\d+(?:\.\d+)?[kKMGBT%]|\d+e[+-]?\d+")
QUOTED = r"\"(?:[^\"\\]|\\.)*\"|'[^']*'"

PASSWORD_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "mysql": ("-p",),
    "mysqldump": ("-p",),
    "mysqladmin": ("-p",),
    "mariadb": ("-p",),
    "mariadb-dump": ("-p",),
    "sshpass": ("-p",),
    "redis-cli": ("-a",),
    "ldapsearch": ("-w",),
    "smbclient": ("-U",),
    "curl": ("-u", "--user"),
}
"""Programs that take a password in a short option, which means something else in most others."""


class SecretPattern(NamedTuple):
    """What a secret looks like. `decide` says of a match whether it is one; the group `secret` is masked."""

    name: str
    pattern: re.Pattern[str]
    decide: Callable[[re.Match[str]], bool] = lambda _: True


def is_secret_name(name: str) -> bool:
    """Whether a variable, option or tag of this name holds a secret."""
    words = _words(name)
    return _is_certain(name) or (
        bool(words) and words[-1] in LIKELY and not NO_SECRET.intersection(words[-2:-1])
    )


@lru_cache(maxsize=1024)
def _is_certain(name: str) -> bool:
    """Also of words that are written together (`PGPASSWORD`) or apart (`access_key`)."""
    words = _words(name)
    pairs = (first + second for first, second in pairwise(words))
    return any(
        word.endswith(certain) for word in (*words, *pairs) for certain in CERTAIN if len(certain) > 2
    ) or ("pw" in words)


@lru_cache(maxsize=1024)
def _words(name: str) -> tuple[str, ...]:
    """`api`, `key` for `--api-key`, `API_KEY` and `apiKey`."""
    return tuple(word.lower() for word in WORDS.findall(name))


def mask_value(name: str, value: str) -> str:
    """The value with its secrets masked; all of it if the name says that it is one."""
    if is_secret_name(name) and not _is_ordinary(name, value):
        return MASK
    return mask(value)


def mask_argv(argv: Sequence[str]) -> list[str]:
    """The arguments with their secrets masked: `--api-key X`, `--api-key=X`, `TOKEN=X`, `mysql -pX`, bare keys."""
    masked: list[str] = []
    short: tuple[str, ...] = ()
    before = ""
    for argument in argv:
        short = PASSWORD_OPTIONS.get(PurePath(argument).name, short)
        if before in short or (_is_option(before) and _is_value(before, argument)):
            masked.append(_after_user(argument) if before in ("-u", "--user", "-U") else MASK)
            short = ()
        elif option := next((option for option in short if _is_attached(option, argument)), ""):
            masked.append(option + _after_user(argument[len(option) :], option))
        else:
            masked.append(mask(argument))
        before = argument
    return masked


def _is_attached(option: str, argument: str) -> bool:
    return len(option) == 2 and argument.startswith(option) and len(argument) > 2


def _after_user(value: str, option: str = "-u") -> str:
    """`me:***` where a user stands before the password."""
    if option == "-p" or option == "-a" or option == "-w":
        return MASK
    user, by, _ = value.partition("%" if "%" in value else ":")
    return f"{user}{by}{MASK}" if by else value


def _is_option(word: str) -> bool:
    return word.startswith("-") and "=" not in word and is_secret_name(word)


def _is_value(name: str, word: str) -> bool:
    return not word.startswith("--") and not _is_ordinary(name, word)


@lru_cache(maxsize=4096)
def mask(text: str) -> str:
    """Free text, such as a shell command or a printed line, with its secrets masked."""
    for rule in RULES:
        text = rule.pattern.sub(lambda match, rule=rule: _masked(rule, match), text)  # type: ignore[misc]
    return text


def _masked(rule: SecretPattern, match: re.Match[str]) -> str:
    if MASK in match["secret"] or not rule.decide(match):
        return match[0]
    begin, end = (at - match.start() for at in match.span("secret"))
    return match[0][:begin] + MASK + match[0][end:]


def _is_ordinary(name: str, value: str) -> bool:
    """Whether a value is no secret, though its name is that of one: `auth=true`, `pass=2`, `PWD=/home/me`."""
    bare = value.strip("\"'")
    is_path = bare.startswith(("/", "~", "./", "../")) and _words(name)[-1] in ("pwd", "key", "cookie")
    if _is_certain(name):
        return not value or is_path
    return (
        bare.lower() in ORDINARY_VALUES
        or SMALL_NUMBER.fullmatch(bare) is not None
        or is_path
        or bare.startswith(("<", "$"))
        or not bare
    )


def _named(match: re.Match[str]) -> bool:
    return is_secret_name(match["name"]) and not _is_ordinary(match["name"], match["secret"])


def _named_in_prose(match: re.Match[str]) -> bool:
    """After a colon, in prose: `pass: took 3 s` is none; a certain name is enough, else it must look like one."""
    return _named(match) and (_is_certain(match["name"]) or _is_mixed(match["secret"], 8))


def _is_mixed(word: str, least: int) -> bool:
    letters = any(letter.isalpha() for letter in word)
    return len(word) >= least and letters and any(letter.isdigit() for letter in word)


def _looks_random(match: re.Match[str]) -> bool:
    """Digits among letters of both cases, or hexadecimal only; names that people choose are neither."""
    word = match["secret"]
    digits = sum(letter.isdigit() for letter in word)
    mixed = any(c.islower() for c in word) and any(c.isupper() for c in word)
    return digits >= 4 and (mixed or re.fullmatch("[0-9a-f]+|[0-9A-F]+", word) is not None)


def _has_long_part(match: re.Match[str]) -> bool:
    """A part of 16 letters and digits without a dash in it; `sk-learn-baseline-2026` has none."""
    return any(len(part) >= 16 for part in re.split("[-_.]", match["secret"]))


def _is_prefixed_key(match: re.Match[str]) -> bool:
    """Has a long part, digits or capitals; a name like `hf_trainer_baseline_run` has none of them."""
    return _has_long_part(match) or any(
        letter.isdigit() or letter.isupper() for letter in match["secret"][4:]
    )


def _is_no_path(match: re.Match[str]) -> bool:
    """An AWS secret key may have slashes; in a path there are words and numbers between them."""
    word = match["secret"]
    kinds = (str.islower, str.isupper, str.isdigit)
    wordlike = re.compile(r"[A-Za-z]?[a-z]{2,}[\d.]*|\d*|[A-Z]+\d*")
    return all(any(map(kind, word)) for kind in kinds) and not any(
        wordlike.fullmatch(part) for part in re.split("[/+]", word)
    )


def _is_account(match: re.Match[str]) -> bool:
    """`user:password@host`, but not an image's `name:3.11@sha256:...`."""
    return (
        not match["host"].startswith(("sha256", "sha512"))
        and re.fullmatch(r"[\d.]+", match["secret"]) is None
    )


RULES = (
    SecretPattern(
        "private key",
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?P<secret>.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S
        ),
    ),
    SecretPattern(
        "webhook",
        re.compile(
            r"(?:hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/"
            r"|\.webhook\.office\.com/|chat\.googleapis\.com/v1/spaces/|api\.telegram\.org/bot)(?P<secret>[^\s\"'<>]+)",
            re.I,
        ),
    ),
    SecretPattern(
        "account in an address",
        re.compile(r"\b(?:https?|ftps?|wss?|git\+https?)://(?!git@)(?P<secret>[^\s/\"'?#]+)@", re.I),
    ),
    SecretPattern(
        "password in an address",
        re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s/:@\"']*:(?P<secret>[^\s/\"']+)@", re.I),
    ),
    SecretPattern(
        "password before a host",
        re.compile(
            r"(?<![\w/@:.-])[A-Za-z_][\w.+-]*:(?P<secret>[^\s:@/\"'=,;]{3,})@"
            r"(?P<host>(?:[A-Za-z][\w-]*(?:\.[\w-]+)+|localhost|\d+(?:\.\d+){3}|[A-Za-z][\w-]*(?=[:/])))"
        ),
        _is_account,
    ),
    SecretPattern(
        "header",
        re.compile(
            r"(?P<head>\bauthorization\W{1,4})?\b(?:Bearer|Basic|Token|ApiKey)\s+(?P<secret>[\w.~+/=-]{8,})",
            re.I,
        ),
        lambda match: bool(match["head"]) or any(letter in "0123456789=" for letter in match["secret"]),
    ),
    SecretPattern(
        "query",
        re.compile(
            r"[?&](?:sig|se?cret|key|code|token|[\w-]*[-_](?:key|token|secret|signature|credential)"
            r"|X-(?:Amz|Goog)-(?:Signature|Credential|Security-Token)|AWSAccessKeyId|Signature|apikey|password)"
            r"=(?P<secret>[^&\s\"'#]+)",
            re.I,
        ),
    ),
    SecretPattern(
        "JSON",
        re.compile(
            r"\\?[\"'](?P<name>[A-Za-z_][\w.-]*)\\?[\"']\s*:\s*\\?[\"'](?P<secret>(?:[^\"'\\]|\\(?![\"']).)*)\\?[\"']"
        ),
        _named,
    ),
    SecretPattern(
        "assignment",
        re.compile(rf"(?P<name>[A-Za-z_][\w.-]*)\s*=\s*(?P<secret>{QUOTED}|[^\s;,&|'\"]+)"),
        _named,
    ),
    SecretPattern(
        "colon",
        re.compile(rf"(?P<name>[A-Za-z_][\w.-]*):[ \t]*(?P<secret>{QUOTED}|[^\s;,&|'\"/]+)"),
        _named_in_prose,
    ),
    SecretPattern(
        "option",
        re.compile(rf"(?<![\w-])(?P<name>--?[A-Za-z][\w-]*)\s+(?!--)(?P<secret>{QUOTED}|[^\s;,&|'\"]+)"),
        _named,
    ),
    SecretPattern(
        "password option",
        re.compile(
            r"(?<![\w-])(?:(?:mysql(?:dump|admin)?|mariadb(?:-dump)?|sshpass)\s(?:[^|;&\n]*?\s)??-p"
            rf"|redis-cli\s(?:[^|;&\n]*?\s)??-a)\s*(?P<secret>{QUOTED}|[^\s;&|'\"]+)"
        ),
    ),
    SecretPattern(
        "user option",
        re.compile(
            r"(?<![\w-])curl\s(?:[^|;&\n]*?\s)?(?:-u\s*|--user[ =])[\"']?[^\s:\"']+:(?P<secret>[^\s\"']+)"
        ),
    ),
    SecretPattern(
        "key by its prefix",
        re.compile(
            r"""(?<![\w-])(?P<secret> (?:hf|api_org|gh[pousr]|npm|dop_v1|doo_v1|r8|gsk|tgp_v1|rpa|shpat|wandb_v1
                  |dckr_pat|pplx|xai|lsv2_(?:pt|sk)|sq0[a-z]{3})[_-][A-Za-z0-9_]{16,}
                | github_pat_\w{16,} | gl(?:pat|ptt|rt)-[\w-]{16,} | xox[abeprs]-[\w-]{10,} | xapp-[\w-]{20,}
                | A(?:KIA|SIA)[A-Z0-9]{16} | AIza[\w-]{30,} | ya29\.[\w-]{20,} | SG\.[\w-]{16,}\.[\w-]{16,}
                | eyJ[\w-]{10,}\.[\w-]{10,}(?:\.[\w-]*)? | hv[sb]\.[\w-]{20,} | pypi-[\w-]{20,}
                | AGE-SECRET-KEY-\w{20,}
                | nvapi-[\w-]{24,} | tskey-[\w-]{16,} )(?![\w-])""",
            re.X,
        ),
        _is_prefixed_key,
    ),
    SecretPattern(
        "key with parts",
        re.compile(r"(?<![\w-])(?P<secret>(?:sk|pk|rk|local)[-_][\w-]{16,})"),
        _has_long_part,
    ),
    SecretPattern(
        "key with slashes",
        re.compile(r"(?<![\w/+.@-])(?P<secret>[A-Za-z0-9/+]{40})(?![\w/+=.-])"),
        _is_no_path,
    ),
    SecretPattern(
        "random word",
        re.compile(r"(?<![\w/.@-])(?P<secret>[A-Za-z0-9+_]{32,}={0,2})(?![\w/.-])"),
        _looks_random,
    ),
)
