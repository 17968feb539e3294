"""Masks secrets in everything that is kept, shown or sent: command lines, variables, addresses, tags, texts.

A secret is known by its name (`--api-key X`), by its place (`mysql -pX`, `user:X@host`) or by its looks
(`ghp_...`). Names of runs and files that merely look like one are kept. Examples of both sides are in
tests/telemetry/secrets.toml, rule by rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import PurePath
from typing import NamedTuple

from gputel.telemetry.secret_names import is_certain, is_ordinary, is_secret_name, words_of

MASK = "***"

PARAMETER = re.compile(r"[A-Za-z_]+\d{0,3}(?:\.(?:[A-Za-z_]+[A-Za-z_\d]{0,3}|\d{1,4}))+")
"""`model.layers.0.self_attn.q_proj.weight`, as in messages about keys of a checkpoint."""
HASH = re.compile(r"[0-9a-f]{32,64}")
BEFORE_HASH = re.compile(
    r"(?<![A-Za-z])(?:revision|commit|sha\d*|md5|checksum|digest|hash|ref|rev|head|checkout|reset|show|version)\W{1,4}\Z",
    re.I,
)
"""What stands before a hash that names a version, which a hexadecimal key looks like."""
QUOTED = r"\"(?:[^\"\\]|\\.)*\"|'[^']*'"

PASSWORD_OPTIONS: Mapping[str, str] = {
    **dict.fromkeys(("mysql", "mysqldump", "mysqladmin", "mariadb", "mariadb-dump", "sshpass"), "-p"),
    **dict.fromkeys(("mongo", "mongosh", "mongodump", "mongorestore"), "-p"),
    **dict.fromkeys(("zip", "unzip"), "-P"),
    "redis-cli": "-a",
    "ldapsearch": "-w",
    "openssl": "-k",
}
"""Programs that take a password in a short option, which means something else in most others."""
LOGIN_OPTIONS = dict.fromkeys("docker podman nerdctl buildah skopeo helm oras az oc".split(), "-p")
"""The same, but only after the word `login`: `docker run -p 8080:80` is a port."""
ARCHIVERS = ("7z", "7za", "7zr", "7zz", "rar", "unrar")
ARCHIVE_PASSWORD = re.compile(r"(-h?p)(?!-).+")
"""Their password stands in the same word as its option; `7z x data.7z -p` asks for it."""
ACCOUNT_PROGRAMS = ("curl", "smbclient")
USER_OPTION = re.compile(r"-[A-Za-z]*[uU]|--(?:proxy-)?user")
USER_BEGINS = ("-u", "-U", "--user=", "--proxy-user=")
ACCOUNT = re.compile(r"\A([^:%]+[:%])(.+)")
"""Programs with an option for a user and, after a colon or a percent sign, the password."""
SETTERS = ("set", "setenv")
"""Words before a name and its value: `aws configure set NAME VALUE`, `setenv NAME VALUE`."""
AUTHTOKEN = ("authtoken", "add-authtoken")
HEADER_OPTIONS = ("-H", "--header")


ARGUMENTS = r"[^|;&\n]{0,500}?"
"""Between a program and its option; without a limit a long text takes the square of its length."""
DEEPEST = 8
"""How many values within values are looked at: `--env=NAME=X` has one."""


class SecretPattern(NamedTuple):
    """What a secret looks like. `decide` says of a match whether it is one; the group `secret` is masked."""

    name: str
    pattern: re.Pattern[str]
    decide: Callable[[re.Match[str]], bool] = lambda _: True


def mask_value(name: str, value: str) -> str:
    """The value with its secrets masked; all of it if the name says that it is one."""
    if is_secret_name(name) and not is_ordinary(name, value):
        return MASK
    return mask(value)


def mask_argv(argv: Sequence[str]) -> list[str]:
    """The arguments with their secrets masked: `--api-key X`, `--api-key=X`, `TOKEN=X`, `mysql -pX`, bare keys."""
    masked: list[str] = []
    password = login = before = ""
    has_account = is_archiver = False
    words = ["", ""]
    for argument in argv:
        program = PurePath(argument).name
        password = PASSWORD_OPTIONS.get(program, login if argument == "login" else password)
        login, has_account = LOGIN_OPTIONS.get(program, login), has_account or program in ACCOUNT_PROGRAMS
        is_archiver = is_archiver or program in ARCHIVERS
        attached = _attached(password, argument)
        if (_is_option(before) and _is_value(before, argument)) or _is_set_by(words, argument):
            masked.append(MASK)
        elif password and (attached or (before == password and not argument.startswith("--"))):
            masked.append(attached + MASK)
            password = ""
        elif is_archiver and (option := ARCHIVE_PASSWORD.fullmatch(argument)):
            masked.append(option[1] + MASK)
        elif has_account and (USER_OPTION.fullmatch(before) or _has_user(argument)):
            masked.append(ACCOUNT.sub(rf"\1{MASK}", argument))
        elif before in HEADER_OPTIONS:
            masked.append(mask(f"{before} {argument}")[len(before) + 1 :])
        elif HASH.fullmatch(argument) and BEFORE_HASH.search(f"{before} "):
            masked.append(argument)
        else:
            masked.append(mask(argument))
        before = argument
        words += [] if argument.startswith("-") else [argument]
    return masked


def _attached(option: str, argument: str) -> str:
    """The option at the begin of `-pX`; empty for another argument."""
    return option if option and argument.startswith(option) and len(argument) > len(option) else ""


def _has_user(argument: str) -> bool:
    return argument.startswith(USER_BEGINS) and not USER_OPTION.fullmatch(argument)


def _is_set_by(words: Sequence[str], argument: str) -> bool:
    """Whether the words before it, options left out, make it the value of a secret name."""
    setter, name = words[-2:]
    sets = setter in SETTERS and _is_set(name) and not is_ordinary(name, argument)
    return not argument.startswith("-") and (sets or name in AUTHTOKEN)


def _is_set(name: str) -> bool:
    """Whether `set NAME` sets a secret; in `set key loss` there is one word too few."""
    return is_secret_name(name) and (is_certain(name) or len(words_of(name)) > 1)


def _is_option(word: str) -> bool:
    return word.startswith("-") and "=" not in word and is_secret_name(word)


def _is_value(name: str, word: str) -> bool:
    return not word.startswith("--") and not is_ordinary(name, word)


@lru_cache(maxsize=4096)
def mask(text: str) -> str:
    """Free text, such as a shell command or a printed line, with its secrets masked."""
    for rule in rules():
        text = _masked(rule, text)
    return text


def star_out(line: bytes) -> bytes:
    """A printed line with a star for each byte of its secrets, so that offsets into the output stay right."""
    text = line.decode("latin-1")
    for rule in rules():
        text = _masked(rule, text, at_length=True)
    return text.encode("latin-1")


def _masked(rule: SecretPattern, text: str, *, at_length: bool = False) -> str:
    """The text with what the rule finds; a match that is no secret may have one in its value: `--env=TOKEN=X`."""
    parts: list[str] = []
    done = at = depth = around = 0
    while match := rule.pattern.search(text, at):
        begin, end = match.span("secret")
        if MASK in match["secret"] or not rule.decide(match):
            depth = depth + 1 if end <= around else 0
            at, around = (end if depth == DEEPEST else max(begin, match.start() + 1)), max(end, around)
            continue
        parts += [text[done:begin], "*" * (end - begin) if at_length else MASK]
        done = at = end
    return "".join([*parts, text[done:]])


def _named(match: re.Match[str]) -> bool:
    return is_secret_name(match["name"]) and not is_ordinary(match["name"], match["secret"])


def _named_in_prose(match: re.Match[str]) -> bool:
    """Whether a value after a colon in prose is a secret, by name or looks; in `pass: took 3 s` it is not."""
    certain = is_certain(match["name"])
    looks_so = _is_mixed(match["secret"]) and not PARAMETER.fullmatch(match["secret"])
    return _named(match) and (certain or looks_so)


def _is_long_key(word: str) -> bool:
    return len(word) >= 8 and any(letter in "0123456789=" for letter in word)


def _is_mixed(word: str) -> bool:
    letters = any(letter.isalpha() for letter in word)
    return len(word) >= 8 and letters and any(letter.isdigit() for letter in word)


def _looks_random(match: re.Match[str]) -> bool:
    """Digits among letters of both cases, or hexadecimal only; names that people choose are neither."""
    word = match["secret"]
    if HASH.fullmatch(word) and BEFORE_HASH.search(match.string[max(0, match.start() - 16) : match.start()]):
        return False
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


def _passwords() -> str:
    """A pattern of the commands that end with a password option."""
    inside = rf"(?:{ARGUMENTS}\s)??"
    plain = {option: [] for option in PASSWORD_OPTIONS.values()}  # type: dict[str, list[str]]
    for program, option in PASSWORD_OPTIONS.items():
        plain[option].append(program)
    commands = [rf"(?:{'|'.join(programs)})\s{inside}{option}" for option, programs in plain.items()]
    logins = rf"(?:{'|'.join(LOGIN_OPTIONS)})\s(?:registry\s)?login\s{inside}-p"
    archives = rf"(?:{'|'.join(ARCHIVERS)})\s{inside}-h?p(?=\S)"
    return "|".join([*commands, logins, archives])


@cache
def rules() -> tuple[SecretPattern, ...]:
    """What secrets look like; compiled when the first text is masked, as most readers of logs mask none."""
    return (
        SecretPattern(
            "private key",
            re.compile(
                r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?P<secret>.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
                re.S,
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
                r"(?P<head>\bauthorization\W{1,4})?\b(?:Bearer|Basic|Token|ApiKey)\s+(?P<secret>[\w.~+/=-]{3,})",
                re.I,
            ),
            lambda match: bool(match["head"]) or _is_long_key(match["secret"]),
        ),
        SecretPattern(
            "header option",
            re.compile(
                r"(?<![\w-])(?:-H|--header)[ =]?[\"']?(?P<name>[A-Za-z][\w-]*):[ \t]*(?P<secret>[^\"'\n]+)"
            ),
            _named,
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
            re.compile(rf"(?P<name>[A-Za-z_][\w.-]*):[ \t]*(?P<secret>{QUOTED}|[^\s;,&|'\"/}}]+)"),
            _named_in_prose,
        ),
        SecretPattern(
            "option",
            re.compile(rf"(?<![\w-])(?P<name>--?[A-Za-z][\w.-]*)\s+(?!--)(?P<secret>{QUOTED}|[^\s;,&|'\"]+)"),
            _named,
        ),
        SecretPattern(
            "setting",
            re.compile(
                r"(?<![\w-])(?:set(?:env)?\s+(?:-\w+\s+)*|(?=(?:add-)?authtoken\s))(?P<name>[A-Za-z][\w.-]*)"
                rf"\s+(?P<secret>{QUOTED}|[^\s;&|'\"-][^\s;&|'\"]*)"
            ),
            lambda match: _is_set(match["name"]) and _named(match),
        ),
        SecretPattern(
            "password option",
            re.compile(rf"(?<![\w-])(?:{_passwords()})\s*(?!-)(?P<secret>{QUOTED}|[^\s;&|'\"]+)"),
        ),
        SecretPattern(
            "piped password",
            re.compile(
                rf"\becho\s+(?:-n\s+)?(?!\$)(?P<secret>{QUOTED}|[^\s|]+)\s*\|{ARGUMENTS}--(?:password-stdin|with-token)\b"
            ),
        ),
        SecretPattern(
            "user option",
            re.compile(
                rf"(?<![\w-])(?:curl\s(?:{ARGUMENTS}\s)?(?:-[A-Za-z]*[uU]\s*|--(?:proxy-)?user[ =])"
                rf"|smbclient\s(?:{ARGUMENTS}\s)?(?:-U\s*|--user[ =]))[\"']?[^\s:%\"']+[:%](?P<secret>[^\s\"']+)"
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
