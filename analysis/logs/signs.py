"""Kinds of lines that matter beside records, by their words: the table of signs, tried in order."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple

from gputel.analysis.logs import patterns
from gputel.analysis.logs.saved_steps import naming

Fatal = Literal["failed", "interrupted", "victim"]


class Sign(NamedTuple):
    """A kind of line that matters. `kind` None: it is no event, but ends the run."""

    kind: str | None
    regex: re.Pattern[bytes]
    fatal: Fatal | None = None


def _sign(kind: str | None, regex: bytes, fatal: Fatal | None = None) -> Sign:
    return Sign(kind, patterns.lazy_regex(regex), fatal)


_SAVED_ELSEWHERE = "保存|저장|сохран".encode()
_DONE_ELSEWHERE = (
    "训练(?:已经?)?(?:完成|结束|完毕)".encode(),
    "学習(?:が)?(?:完了|終了)".encode(),
    "학습(?:이)? ?(?:완료|종료)".encode(),
)
_OF_ROUND = "epoch|[ :]iter|轮|第|エポック|에폭|에포크".encode()  # `第3轮训练完成`: one of many has ended
# Tried in this order; the first that matches decides.
SIGNS = (
    _sign(
        None,
        rb"(?i)\b(?:stopped|ended|exiting) at (?:step|iteration|epoch)\b.*\bSIG(?:TERM|INT|HUP)\b",
        "interrupted",
    ),
    _sign(
        "stop", rb"DUE TO (?:TIME LIMIT|PREEMPTION|NODE FAILURE|JOB REQUEUE)|\bCANCELLED AT\b", "interrupted"
    ),
    _sign(
        "stop",
        rb"(?i)\b(?:received|caught|got|handling)\b[^:]{0,40}\b(?:SIG(?:TERM|INT|HUP|USR1|USR2|KILL)\b|signal:? \d+"
        rb"|preemption)|death signal|SignalException|SLURM_JOB_PREEMPT|\bpreempted\b"
        rb"|\bwall[- ]?(?:clock|time) limit"
        rb"|exceeded (?:the )?(?:time limit|walltime)|\bspot (?:instance )?interruption"
        rb"|\b(?:interrupt(?:ion)?|termination|stop|shutdown)(?: signal)?[`'\"]? (?:was |is )?"
        rb"(?:received|caught|detected)\b"
        rb"|\b(?:received|caught|got|detected) (?:an? |the )?(?:keyboard ?)?(?:interrupt|termination)\b"
        rb"|\bkilled by signal: (?:terminated|interrupt)\b"
        rb"|\btraining (?:was |is |has been )?interrupted\b"
        rb"|\bctrl ?[-+] ?c (?:was )?(?:pressed|received|caught|detected)\b",
        "interrupted",
    ),
    _sign(
        "stop",
        rb"(?i)\b(?:time|hours?|cost|budget|walltime)\b[^:\n]{0,30}\b(?:reached|exceeded|exhausted|used up)\b"
        rb"[^:\n]{0,12}\b(?:stopping|exiting|ending training|shutting down)\b",
        "interrupted",
    ),
    _sign(
        "stop",
        rb"^\W*(?:\[?rank ?\d+\]?:? *)*KeyboardInterrupt\b|(?i:interrupted by (?:the )?user)|^\^C",
        "interrupted",
    ),
    _sign(
        "stop",
        rb"(?i)\bearly[- ]?stopp(?:ing|ed)\b\s*(?:$|[.!]|at\b|after\b|trigger|because|condition met|now\b"
        rb"|[:,-] (?:val\w*[ _])?(?:loss |metric )?(?:no|has not|did not|not)\b[^\n]{0,20}\bimprov)"
        rb"|\bearly[- ]stop after \d+ (?:epoch|step|iteration)s?\b"
        rb"|\bstopping early\b|\bsignaling trainer to stop\b|\bstopped early\b",
    ),
    _sign(
        "oom",
        rb"OutOfMemoryError|ResourceExhaustedError|\bOOM when allocating\b"
        rb"|(?i:CUDA(?: error)?: out of memory|CUDA out of memory|HIP out of memory"
        rb"|oom[-_ ]kill(?!er due to high memory usage\. \(2\))"
        rb"|OOMKilled|out of memory: killed|RESOURCE_EXHAUSTED|CUBLAS_STATUS_ALLOC_FAILED|cannot allocate memory)",
        "failed",
    ),
    _sign(
        "nccl",
        rb"Watchdog caught collective operation timeout|(?i:NCCL (?:error|failure|timeout)|ncclSystemError"
        rb"|ncclInternalError|ncclUnhandledCudaError|ncclRemoteError|ncclInvalidUsage)|DistBackendError"
        rb"|NCCL communicator was aborted",
        "failed",
    ),
    _sign(
        None,
        rb"ChildFailedError|CalledProcessError|Process \d+ terminated with|\bexitcode *: *-?[1-9]"
        rb"|\bexits with return code *= *-?[1-9]"
        rb"|(?:srun|mpirun|slurmstepd): error:|ProcessExitedException|Some of your processes failed",
        "victim",
    ),
    _sign(
        None,
        rb"\bSegmentation fault\b|\bBus error\b|\(core dumped\)|Fatal Python error|terminate called after throwing"
        rb"|CUDA error: (?!out of memory)|(?i:device-side assert triggered)|No space left on device|^\s*Killed\s*$"
        rb"|\(raylet\b[^()]*\) A worker died or was killed\b"
        rb"|: line \d+: +\d+ (?:Killed|Aborted) "
        rb"|\bXid\b.{0,40}\b(?:79|48|63|64|74|94|95)\b",
        "failed",
    ),
    _sign(
        "nan",
        rb"(?i)\b(?:loss|grad(?:ient)?s?|grad[_ ]norm)\b[^|,{}]{0,24}\b(?:is|became|are|was|turned)\b[^|,{}]{0,12}"
        rb"\b(?:nan|inf)\b|\b(?:nan|inf|non-?finite)\b(?: or (?:nan|inf))? (?:loss|grad)"
        rb"|nan(?:s)? detected|detected nan",
    ),
    _sign(
        "restart",
        rb"(?i)\brestart(?:ing|ed)\b[^:]{0,40}\b(?:worker|workers|training|job|run|rank|process|from)\b"
        rb"|\bRESTART #?\d",
    ),
    _sign(
        "resume",
        rb"(?i)\bresum(?:ing|ed)\b(?!\s*[=:])|^\W*resume training (?:with|from)\b|\bcontinuing training from\b"
        rb"|\bloading checkpoint\b.*\bat iteration\b"
        rb"|\bsuccessfully loaded checkpoint\b|\brestored (?:all )?(?:the )?(?:states? )?from\b"
        rb"|\bloaded checkpoint\b.{0,120}\b(?:step|epoch|iter\w*|at)\b",
    ),
    _sign(
        "checkpoint",
        rb"(?i)\bsav(?:ed|ing)\b.{0,60}\b(?:checkpoint|ckpt|model|weights|optimizer|optim|metadata|state|snapshot)"
        rb"|\b(?:checkpoint|model|weights|snapshot)s?\b.{0,40}\bsaved\b|\b(?:writing|wrote|written)\b.{0,30}\bcheckpoint"
        rb"|\bcheckpoint written\b"
        rb"|\bsave (?:best )?(?:model|checkpoint|weights|to checkpoint)\b.{0,20}\b(?:in|to)\b|\bcheckpoint: save\b"
        rb"|\bsnapshotting (?:to|model)\b"
        rb"|(?:\bsav(?:ed|ing)\b|%b).{0,80}\.(?:pt|pth|ckpt|safetensors|bin|h5|keras|npz|distcp)\b"
        rb"|\bcheckpointing to\b" % _SAVED_ELSEWHERE,
    ),
)
SAVE = SIGNS[-1]
BEGIN_AGAIN = "steps begin again"  # the text of a restart that no line explains
_DAY = (
    rb"(?:\d{4}[-/.]\d\d[-/.]\d\d|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}"
    rb"|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?,? +\d{1,2}\b"
    rb"|\d{1,2}[ -](?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?[ -]\d{4})"
)
_RUNS = rb"(?:python[\d.]*|torchrun|accelerate|deepspeed|srun|nohup|bash|sh) "  # what a shell is asked to run
# `Training model vgg`, `Dataset: cora`: what the next training is of
_SUBJECTS = (b"model", b"dataset", b"network", b"architecture", b"experiment")
_SUBJECT = (
    rb"(?:%b)[ #:=]{1,3}" % b"|".join(_SUBJECTS)
    + rb"(?!train|val|test|eval|dev|sav|load)(?P<name>[a-z\d][\w./+-]*)[^\w\n]*"
)
# `Fold 2`, `starting seed 3`, `Run 2 of 5`: the number of the next training
_PARTS = tuple(b"fold seed trial subject participant experiment repeat repetition config scale".split())
_NUMBERED = (
    rb"[^a-z]*(?:(?:start\w*|train\w*|cross[- ]?validation|cv|running) )?"
    rb"(?:(?:"
    + b"|".join(_PARTS)
    + rb")\b[ #:=]{0,4}\d+\b(?:(?: ?/ ?| of )\d+)?|(?:split|run) \d+(?: ?/ ?| of )\d+)"
    rb"[^\d.]{0,40}"
)
_OF_SUBJECT = rb"[^a-z\d]*(?:(?:now|start\w*|train\w*|fitting|running|on|with|the) )*" + _SUBJECT
# The heading of one of several trainings.
NEXT = patterns.lazy_regex(rb"(?i)^(?!.*\bepoch)(?:(?P<numbered>%b)|%b)$" % (_NUMBERED, _OF_SUBJECT))
# The first line of a start, dated, from scratch, or of another fold: no event, but why steps begin again.
HEADING = _sign(
    None,
    rb"(?i)^(?!.*\bepoch)(?:" + _NUMBERED + rb"$|[=*#~-]{3,}.*" + _DAY + rb".*"
    rb"|.*\b(?:(?:run|session|job|experiment|training) (?:was )?(?:started|starts|starting|began|begins)\b.{0,20}"
    rb"|start of (?:the )?training\b.{0,30})" + _DAY + rb".*"
    rb"|(?:\([\w.-]{1,40}\) )?(?:\S{0,80}[@~/:]\S{0,80})?[$#] " + _RUNS + rb".*"
    rb"|(?:experimental: )?start(?:ing)? training\b.{0,40}\bfrom (?:scratch|(?:a )?pre-?trained)\b.*"
    rb"|" + _OF_SUBJECT + rb")$",
)
COMPLETED = patterns.lazy_regex(
    rb"(?i)\btraining (?:is |has |was |run )?(?:now )?(?:complete[ds]?|finished|done|ended)\b"
    rb"|\btraining \S+ completed? in \d|\bprocess finished with exit code 0(?!\w)"
    rb"|\b(?:finished|completed) training"
    rb"|\bdone training\b|\btotal training time\b|train_runtime"
    rb"|\d+ epochs completed in|max_(?:steps|epochs)=\d+` reached"
    rb"|\bend of training\b|\btraining loop (?:finished|completed|ended)|\btraining successfully"
    rb"|\boptimization done\b"
    rb"|\bdone in [\d.]+ (?:s|m|h)"
    rb'|"percentage": 100(?:\.0)?[,}]'
    rb"|^(?!.*(?:%b)).*(?:%b)" % (_OF_ROUND, b"|".join(_DONE_ELSEWHERE))
)
DONE = Sign(None, COMPLETED)
# Digits matter in these: `exit code 0`, `model.h5`
_ALIKE = bytes.maketrans(b"123456789", b"000000000")
_COUNTS = patterns.lazy_regex(rb"xid|code|percentage|oom|usr|\.h\d")
TRACEBACK = b"Traceback (most recent call last)"
# Each begins with one byte, and looks behind it for what must not stand before.
_WORTH = (
    *rb"preempt cancelled requeue signal interrupt \^c stopp memory oom exhausted alloc_failed nccl".split(),
    *rb"watchdog distbackend childfailed calledprocess terminat exitcode error fault assert killed".split(),
    *rb"restart resum continuing load restored checkpoint writ wrote train_runtime reached exception".split(),
    *rb"percentage nan inf\b non-?finite xid\b(?<!\wxid) done\b(?<!\wdone) sav(?<!\wsav)[ei]".split(),
    *(
        rb"sig(?<!\wsig)[a-z]{3,4}\b",
        rb"early[- ]?stop",
        rb"wall[- ]?(?:time|clock)",
        rb"completed? in",
        rb"epochs completed",
        rb"traceback \(most",
        rb"time limit",
        rb"node failure",
        rb"ctrl ?[-+]",
        rb"return code",
        rb"exit code 0",
    ),
    *(rb"core dumped", rb"no space", rb"training (?:is|has|was|run|now|comp|fin|done|end|loop|succ)"),
    rb" training(?:(?<=ed training)|(?<=done training)|(?<=total training)|(?<=end of training))",
    *_SAVED_ELSEWHERE.split(b"|"),
    *_DONE_ELSEWHERE,
    *(rb"%b(?<![^\n].)[=*#~-]{2}[^\n]*\d\d" % mark for mark in (b"=", rb"\*", b"#", b"~", b"-")),
    *(rb"%b(?:s|ed|ing)?\b[^\n]{0,20}\d\d" % begins for begins in (b"start", b"begin", b"began")),
    *(rb"%b(?<!\w%b)[ #:=]{0,4}\d" % (part, part) for part in _PARTS),
    *(rb"%b(?<!\w%b) \d+(?: ?/ ?| of )\d" % (part, part) for part in (b"split", b"run")),
    rb"\$ " + _RUNS,
    *(rb"%b(?<!\w%b)[ #:=]{1,3}[a-z\d][\w./+-]*[^\w\n]*(?:\n|$)" % (part, part) for part in _SUBJECTS),
    rb"start of (?:the )?train",
    rb"start(?:ing)? training\b[^\n]{0,40} from ",
)
# Searched in lower case: ignoring case costs ten times as much, and most lines contain none of these.
WORTH = patterns.lazy_regex(patterns.any_of(_WORTH))


class SaveWords(NamedTuple):
    """The meaning of a line about saving."""

    is_other: bool  # the model is saved later, or a plot or a table is saved
    announces: bool  # and does not say that it is done
    names: tuple[bool, bool, bool]


@lru_cache(maxsize=4096)
def save_words(line: bytes) -> SaveWords:
    announces = _ANNOUNCES.search(line) is not None and not _IS_DONE.search(line)
    is_other = any(words.search(line) for words in (_INTENT, _REPORT))
    return SaveWords(is_other, announces, naming(shortened(line)))


def alike(line: bytes) -> bytes:
    """The line with all digits alike, unless they matter: lines that differ in digits only are of one kind."""
    return line if _COUNTS.search(line.lower()) else line.translate(_ALIKE)


@lru_cache(maxsize=4096)
def sign_of(line: bytes) -> Sign | None:
    """The sign that decides what a line is; None if no sign does."""
    if not _is_code(line):
        for sign in SIGNS:
            if sign.regex.search(line):
                return sign
    if COMPLETED.search(line):
        return DONE
    return HEADING if HEADING.regex.search(line) else None


_ANNOUNCES = patterns.lazy_regex(rb"(?i)\b(?:saving|writing|checkpointing|snapshotting|storing)\b")
_IS_DONE = patterns.lazy_regex(rb"(?i)\b(?:saved|finished|done|completed|wrote|written)\b")
_INTENT = patterns.lazy_regex(
    rb"(?i)\b(?:will|would|if|when|defaulting|not|never|every|cannot|failed to)\b.{0,40}\bsav(?:e|ed|ing)\b"
    rb"|'checkpoint_path' summary"
)
_REPORT = patterns.lazy_regex(
    rb"(?i)^(?!.*\.(?:pth?|ckpt|safetensors|bin|h5|keras|npz)\b).*[\w)]\.(?:png|jpe?g|svg|gif|pdf|html|csv|xlsx)\b"
)


def _is_code(line: bytes) -> bool:
    """Whether it is source code that was echoed into the log: `print0(f"Saved checkpoint to {path}")`."""
    return (
        re.search(
            rb"""\b(?:print\w*|log\w*\.\w+|raise \w+)\(\s*f?["']"""
            rb"""|^\s*(?:#|def |import |from \w+ import)|["']\)\s*$""",
            line,
        )
        is not None
    )


def shortened(line: bytes) -> str:
    return line.strip().decode(errors="replace")[:500]
