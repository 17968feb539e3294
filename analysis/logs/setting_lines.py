"""Lines that set something and measure nothing, though they give a loss and a step: `Config: loss=1.0 | step=10`.

`sets` judges one line by its words: a command with its options, names and values behind `Namespace(` or `Config:`,
the place of a checkpoint that is loaded. A line behind `Config:` is settings only where the first such line stands
above all records: later ones are results of what was set. The others judge a printed configuration, values within
one, and lines of a block of pairs. A weight of a loss or a threshold of an accuracy has the name of a measure: the
text around it says that it is a setting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from gputel.analysis.logs.patterns import lazy_regex

Kind = Literal["command", "call", "loaded", "led"]

_FOREIGN = (
    "超参数|超參數|参数|參數|配置|设置|設定|引数|ハイパーパラメータ|パラメータ|하이퍼파라미터|파라미터|설정|인자|"
    "einstellungen|konfiguration|paramètres|paramètre|configuración|parámetros|configuração|parâmetros|"
    "параметры|гиперпараметры|настройки|конфигурация"
).encode()
_NAMES = (
    rb"(?:configs?|configuration|cfg|args|arguments|h?params|(?:hyper[-_ ]?)?parameters|settings|options|opts?"
    rb"|flags|kwargs|%b)" % _FOREIGN
)
_WORDS = rb"(?:[A-Za-z][\w'.]*[ _.-]){0,3}?"
_LED = lazy_regex(
    rb"(?i)\W{0,6}%b(?P<lead>[a-z_.]*%b)['\"]?(?:\s*(?::|=|->|=>|\s-\s|\xef\xbc\x9a))?\s*(?<=[:=>\x9a-])\s*[\[({]*\s*"
    rb"(?:--[a-z]|['\"]?[a-z_\x80-\xff][\w.\x80-\xff-]*['\"]?\s?(?:[:=]|\xef\xbc\x9a)(?!/))"
    % (_WORDS, _NAMES)
)
_CALL = lazy_regex(
    rb"(?i)\W{0,6}(?:[\w' -]{0,40}[:=>]\s*)?['\"]?[\w.]*"
    rb"(?:namespace|config|args|arguments|h?params|settings|options)\(\s*['\"{]{0,2}[A-Za-z_]\w*['\"]?\s*[:=].*[)}]\W*"
)
# `EarlyStopping(patience=5, ...)`: an object of the training, which has no place in it
_OBJECT = lazy_regex(
    rb"\W{0,6}(?:[\w' -]{0,40}[:=>]\s*)?[A-Z]\w*\((?!.*\b(?:step|epoch|iter\w*)=)"
    rb"(?=.*\b(?:patience|min_delta|weight_decay|momentum|betas|eps|factor|step_size|T_max|milestones|seed)=)"
    rb"\w+=.*\)\W*"
)
_PROGRAM = lazy_regex(
    rb"(?:.{0,200}[\s/$+>:'\"])?(?:python[\d.]*|torchrun|accelerate|deepspeed|srun|mpirun|julia|Rscript|bash|sh)\s.*?"
    rb"(?:[\w./-]+\.(?:py|jl|R|sh)|-m\s+[\w.]+)(?![\w.])"
)
_OPTION = lazy_regex(rb"(?<!\S)--[A-Za-z][\w.-]*(?:=|\s+|$)")
_SCRIPT = lazy_regex(rb"\W{0,4}(?:\S+\s+){0,2}?[\w./-]+\.(?:py|jl|R|sh)\s")
_OVERRIDE = lazy_regex(rb"\W{0,4}(?:\S+\s+){0,2}?[\w./-]+\.(?:py|jl|R|sh)(?: [\w.]+=\S+)+\s*")
_LOADED = lazy_regex(
    rb"(?i)\W{0,6}(?:(?:successfully|auto|model|weights) ?)?(?:(?:re)?load|resum|restor)(?:e|ed|ing)?\b"
    rb"(?=.*\b(?:checkpoint|ckpt|weights|snapshot|state)|.*\.(?:pth?|ckpt|safetensors|bin)\b)"
    rb"|\W{0,6}(?:checkpoint|weights|snapshot|state) (?:successfully )?(?:loaded|restored|resumed)\b"
)
_HEADING = lazy_regex(
    rb"(?i)\W*(?:%b[a-z_.]*%b\s*(?::|\xef\xbc\x9a|[=*#_-]{2,})|[a-z_.]*%b)[\W_]*" % (_WORDS, _NAMES, _NAMES)
)
_COLUMNS = lazy_regex(
    rb"(?i)[\s|]*(?:(?:hyper)?parameter|setting|option|config|argument|flag)s?\s*\|?\s*values?[\s|]*"
)
_PAIR = lazy_regex(
    rb"(?P<margin>\s*)[|*>-]?\s*(?:--)?['\"]?(?P<key>[a-zA-Z_\x80-\xff][\w./\x80-\xff-]*(?: [\w./-]+){0,3})['\"]?"
    rb"\s*(?:=>|->|[:=|\t]|\xef\xbc\x9a|\s{2,}|\.{3,}\s)\s*(?!.*\w ?[:=] ?[+-]?\d)\S.*"
)
_RULER = lazy_regex(rb"\s*[-+=*_#|]{3,}\s*")
KEYS = lazy_regex(rb"([^\W\d][\w.-]*)['\"]?\s?[:=]")
MEASURED = lazy_regex(rb"(?i)(?:loss|step|epoch|iter\w*|acc\w*)['\"]?\s?[:=]\s*([^\s,;|)}]+)")
_OTHER = rb"(?:'[^']*'|\"[^\"]*\"|True|False|None|\[[^\]]*\]|\([^)]*\)|[\w.<>/+-]+(?:\([^)]*\))?)"
# Namespace(lr=0.001, name='gpt'), TrainConfig(...): at least four names in one pair of brackets
_PRINTED = lazy_regex(rb"[A-Za-z_]\w*\((?:\w+ ?= ?%b, ?){3,}\w+ ?=" % _OTHER)
# {'lr': 0.001, 'amp': True, ...}: the same in a dict, of which one value is no number
_DICT = lazy_regex(rb"\{(?:['\"][\w.-]+['\"]: ?%b, ?){3,}['\"]" % _OTHER)
_WORD = lazy_regex(rb"['\"]: ?(?:'|\"|True\b|False\b|None\b|true\b|false\b|null\b)")
_OPENS = lazy_regex(
    rb"(?i)['\"]?\b(?:config\w*|h?params|hyper_?param\w*|settings|options|kwargs)['\"]?\s*[:=]?\s*\{"
    rb"|\b(?:namespace|\w*(?:config|args|arguments|settings|options))\("
)
_BRACKETS = lazy_regex(rb"[({]|[)}]")
_KEYED = lazy_regex(
    rb"[\s|*>-]*(?:--)?['\"]?(?P<key>[A-Za-z_][\w./-]*)['\"]?\s*(?:=>|->|[:=|\t]|\s{2,}|\.{3,}\s)\s*(?P<value>.*)"
)
_SHORTEST = 3
_WORDY = 5
_HYPERPARAMETER = lazy_regex(
    r"(?i)(?:^|[./_-])(?:lr\d*|(?:base|init(?:ial)?|max|min|peak)_lr|learning_?rate|(?:mini_?)?batch_?size|bs|bsz"
    r"|(?:num_|max_|n_|nb_|total_|train_)?epochs|(?:max|warmup|total|train)_(?:steps|iters|epochs?)|num_(?:steps|iterations|envs)"
    r"|seed|optim(?:izer)?|weight_?decay|wd|momentum|dropout|betas?[12]?|gamma|adam_\w+|grad_?clip\w*|clip_?grad\w*"
    r"|num_(?:workers|layers|heads|classes|hidden_layers|attention_heads)|n_(?:layer|head|embd)s?"
    r"|hidden_(?:size|dim)|d_model|embed_?dim|lora_(?:r|alpha|dropout)|lr_scheduler\w*|n_estimators|max_depth"
    r"|(?:data|output|save|log)_?(?:dir|path)|model(?:_name\w*)?|dataset|device)$"
)
_LONGEST_LINE = 4096
LONGEST_BLOCK = 60  # lines


def sets(line: bytes) -> Kind | None:
    """How a line without its prefix sets something; None where it may measure."""
    if len(line) > _LONGEST_LINE:
        return None
    if b"--" in line or b".py" in line or b".sh" in line:
        options = len(_OPTION.findall(line))
        runs = (options and _SCRIPT.match(line)) or _OVERRIDE.fullmatch(line) or _PROGRAM.match(line)
        if options > 1 or runs:
            return "command"
    if b"(" in line and (_CALL.fullmatch(line) or _OBJECT.fullmatch(line)):
        return "call"
    if _LOADED.match(line):
        return "loaded"
    return "led" if _LED.match(line) else None


def below_heading(lines: Sequence[bytes], number: int) -> bool:
    """Whether a line is a pair in a block below a line such as `Hyperparameters:`.

    The block ends at an empty line, at text, at a smaller margin, and at a name that it has already.
    """
    keys: set[bytes] = set()
    margin = _LONGEST_LINE
    for each in reversed(lines[max(0, number + 1 - LONGEST_BLOCK) : number + 1]):
        if keys and _is_heading(each):
            return True
        if keys and _RULER.fullmatch(each):
            continue
        pair = _PAIR.fullmatch(each) if len(each) < _LONGEST_LINE else None
        if pair is None or pair["key"] in keys or len(pair["margin"]) > margin:
            return False
        keys.add(pair["key"])
        margin = len(pair["margin"])
    return False


def _is_heading(line: bytes) -> bool:
    return len(line) < 80 and (_HEADING.fullmatch(line) or _COLUMNS.fullmatch(line)) is not None


def is_hyperparameter(name: str) -> bool:
    return _HYPERPARAMETER.search(name.strip().replace(" ", "_").replace("-", "_")) is not None


def is_printed(line: bytes) -> bool:
    """Whether a line prints a configuration: many names with values in one pair of brackets."""
    return _PRINTED.search(line) is not None or (
        _DICT.search(line) is not None and _WORD.search(line) is not None
    )


def is_wordy(line: bytes) -> bool:
    """Whether many values of a printed dict are words, as those of a configuration are."""
    return len(_WORD.findall(line)) >= _WORDY


def within(literals: Sequence[bytes]) -> frozenset[int]:
    """The values, by their number, that stand inside `"config": {...}` or `Namespace(...)` of a longer line."""
    inside, depth = set[int](), 0
    for at, text in enumerate(literals):
        opened = _OPENS.search(text) if not depth else None
        if opened:
            depth, text = 1, text[opened.end() :]
        for bracket in _BRACKETS.findall(text) if depth else ():
            depth += 1 if bracket in b"({" else -1
            if not depth:
                break
        if depth:
            inside.add(at)
    return frozenset(inside)


def in_block(lines: Sequence[bytes], number: int) -> bool:
    """Whether the line stands among pairs of keys and values of which one is a hyperparameter."""
    if not _KEYED.fullmatch(lines[number]):
        return False
    first = last = number
    while first and number - first < LONGEST_BLOCK and _KEYED.fullmatch(lines[first - 1]):
        first -= 1
    while last + 1 < len(lines) and last - number < LONGEST_BLOCK and _KEYED.fullmatch(lines[last + 1]):
        last += 1
    keys = [pair["key"] for line in lines[first : last + 1] if (pair := _KEYED.fullmatch(line))]
    return len(keys) >= _SHORTEST and any(is_hyperparameter(key.decode(errors="replace")) for key in keys)
