"""Lines that are not records -> events, how the run ended, and what ended it.

The cause is the first fatal line after the last record: later messages of other ranks and launchers are
consequences. A launcher's own error (`ChildFailedError`) is the cause only if nothing else was printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from gputel.analysis.logs import patterns
from gputel.analysis.logs.lines import Chunk
from gputel.analysis.logs.patterns import EngineResult
from gputel.analysis.logs.saved_steps import named_numbers, naming

KINDS = ("checkpoint", "eval", "resume", "restart", "epoch", "nan", "oom", "nccl", "traceback", "stop")
Fatal = Literal["failed", "interrupted", "victim"]
Status = Literal["completed", "running", "interrupted", "failed", "unknown"]


@dataclass(frozen=True)
class LogEvent:
    """An event that a line reports; `fatal` if it ends the run.

    `amends`: it is no other event, but says more of the checkpoint before it.
    """

    kind: str
    line: int
    text: str
    time: int | None = None
    rank: str | None = None
    fatal: Fatal | None = None
    amends: bool = False


@dataclass(frozen=True)
class Sign:
    """A kind of line that matters. `kind` None: it is no event, but ends the run."""

    kind: str | None
    regex: re.Pattern[bytes]
    fatal: Fatal | None = None


def _sign(kind: str | None, regex: bytes, fatal: Fatal | None = None) -> Sign:
    return Sign(kind, patterns.lazy_regex(regex), fatal)


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
        rb"|\b(?:interrupt(?:ion)?|termination|stop|shutdown)(?: signal)? (?:was )?(?:received|caught|detected)\b"
        rb"|\b(?:received|caught|got|detected) (?:an? |the )?(?:keyboard ?)?(?:interrupt|termination)\b"
        rb"|\btraining (?:was |is |has been )?interrupted\b"
        rb"|\bctrl ?[-+] ?c (?:was )?(?:pressed|received|caught|detected)\b",
        "interrupted",
    ),
    _sign(
        "stop",
        rb"^\W*(?:\[?rank ?\d+\]?:? *)*KeyboardInterrupt\b|(?i:interrupted by (?:the )?user)|^\^C",
        "interrupted",
    ),
    _sign(
        "stop",
        rb"(?i)\bearly[- ]?stopp(?:ing|ed)\b\s*(?:$|[.!]|at\b|after\b|trigger|because|condition met|now\b)"
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
        rb"(?i)\bresum(?:ing|ed)\b(?!\s*[=:])|\bcontinuing training from\b|\bloading checkpoint\b.*\bat iteration\b"
        rb"|\bsuccessfully loaded checkpoint\b|\brestored (?:all )?(?:the )?(?:states? )?from\b"
        rb"|\bloaded checkpoint\b.{0,120}\b(?:step|epoch|iter\w*|at)\b",
    ),
    _sign(
        "checkpoint",
        rb"(?i)\bsav(?:ed|ing)\b.{0,60}\b(?:checkpoint|ckpt|model|weights|optimizer|optim|metadata|state|snapshot)"
        rb"|\b(?:checkpoint|model|weights|snapshot)s?\b.{0,40}\bsaved\b|\b(?:writing|wrote|written)\b.{0,30}\bcheckpoint"
        rb"|\bsave (?:best )?(?:model|checkpoint|weights|to checkpoint)\b.{0,20}\b(?:in|to)\b|\bcheckpoint: save\b"
        rb"|\bsnapshotting (?:to|model)\b"
        rb"|\bsav(?:ed|ing)\b.{0,80}\.(?:pt|pth|ckpt|safetensors|bin|h5|keras|npz|distcp)\b|\bcheckpointing to\b",
    ),
)
SAVE = SIGNS[-1]
COMPLETED = patterns.lazy_regex(
    rb"(?i)\btraining (?:is |has |was |run )?(?:now )?(?:complete[d]?|finished|done|ended)\b"
    rb"|\b(?:finished|completed) training"
    rb"|\bdone training\b|\btotal training time\b|train_runtime"
    rb"|\d+ epochs completed in|max_(?:steps|epochs)=\d+` reached"
    rb"|\bend of training\b|\btraining loop (?:finished|completed|ended)|\btraining successfully"
    rb"|\boptimization done\b"
    rb"|\bdone in [\d.]+ (?:s|m|h)"
    rb'|"percentage": 100(?:\.0)?[,}]'
)
DONE = Sign(None, COMPLETED)
# Digits matter in these: `exit code 0`, `model.h5`
_ALIKE = bytes.maketrans(b"123456789", b"000000000")
_COUNTS = patterns.lazy_regex(rb"xid|code|percentage|oom|usr|\.h\d")
TRACEBACK = b"Traceback (most recent call last)"
# Searched in lower case: ignoring case costs ten times as much, and most lines contain none of these.
_WORTH = patterns.lazy_regex(
    rb"traceback \(most|time limit|preempt|cancelled|node failure|requeue|\bsig[a-z]{3,4}\b|signal|interrupt|\^c"
    rb"|ctrl ?[-+]"
    rb"|early[- ]?stop|stopp|wall[- ]?(?:time|clock)|memory|oom|exhausted|return code|alloc_failed|nccl|watchdog"
    rb"|distbackend|childfailed|calledprocess|terminat|exitcode|error|core dumped|fault|assert|no space|killed"
    rb"|\bxid\b|nan|inf\b|non-?finite|restart|resum|continuing|load|restored|\bsav[ei]|checkpoint|writ|wrote|train_runtime"
    rb"|training (?:is|has|was|run|now|comp|fin|done|end|loop|succ)|(?:ed|done|total|end of) training"
    rb"|epochs completed|reached|\bdone\b|exception|percentage"
)
_PREFIX = patterns.lazy_regex(
    rb"^(?:\s*(?:\[[\w.:-]*rank\w*\d+\]:?|\[[\w.-]+\]:|\d+:|\(\w[^()]*pid=\d+[^()]*\)|\w+-?\d+:)\s*)*", re.I
)
_ERROR = patterns.lazy_regex(
    rb"^(?:[A-Za-z_]\w*\.)+[A-Z]\w*(?::|\s*$)"
    rb"|^[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Expired|Iteration|Warning|Timeout|Failure)(?::|\s*$)"
)


class Outcome:
    """Reads the lines that are not records, in order, and collects their events."""

    def __init__(self) -> None:
        self.events: list[LogEvent] = []
        self.completed: int | None = None  # the line that says so
        self._open: dict[
            bytes, int
        ] = {}  # line of each traceback without its error yet, by the prefix of its lines
        self._saved: set[int] | None = None  # numbers in lines about saving since the last record
        self._named: set[int] = set()  # numbers of the last checkpoint
        self._best_name = (False, False, False)  # how well a line named the last checkpoint
        self._saving = self._done = False  # whether a checkpoint was announced, and then said to be written

    def worth(self, region: bytes, first: int) -> Iterator[tuple[int, bytes]]:
        """The lines of a region that may be events, and all lines within a traceback, with their numbers."""
        lower, number, start = region.lower(), first, 0
        while start <= len(region):
            if not self._open:
                match = _WORTH.search(lower, start)
                if match is None:
                    return
                begin = max(start, region.rfind(b"\n", start, match.start()) + 1)
                number, start = number + region.count(b"\n", start, begin), begin
            end = region.find(b"\n", start)
            line = region[start : end if end >= 0 else len(region)]
            yield number, line
            number, start = number + 1, start + len(line) + 1

    def read(self, line: bytes, number: int) -> Iterator[LogEvent]:
        """The events of one line."""
        if self._open and (event := self._error(line, number)):
            yield event
            return
        if not _WORTH.search(line.lower()):
            return
        if TRACEBACK in line:
            head = line[: line.index(TRACEBACK)]
            self._open[_prefix(head)] = number
            yield LogEvent("traceback", number, "")
            return
        sign = _sign_of(_alike(line))
        if sign is SAVE:
            yield from self._save(line, number)
        elif sign is DONE:
            self.completed = number
        elif sign:
            yield LogEvent(sign.kind or "", number, _text(line), fatal=sign.fatal)
            if sign.fatal == "interrupted" and SAVE.regex.search(line):
                yield from self._save(line, number)

    def recorded(self) -> None:
        """Notes that a record stands here: a checkpoint saved from now on is another one."""
        self._saved = None
        self._saving = self._saving and not self._done

    def _save(self, line: bytes, number: int) -> Iterator[LogEvent]:
        """The checkpoint that a line reports, or what it says more of the one before."""
        said = _said(_alike(line))
        if said.intends:
            return
        open_save = self._saved is not None
        again = self._again(line, said)
        if again and (not open_save or said.names <= self._best_name):
            return
        self._best_name = said.names
        yield LogEvent("checkpoint", number, _text(line), amends=again)

    def _again(self, line: bytes, said: _Save) -> bool:
        """Whether the line is about the same checkpoint as an earlier one: ranks and files may print several.

        Between two records only another number makes another checkpoint.
        """
        if said.announces:
            self._saving, self._done = True, False
        elif self._saving:
            self._done = True
            return True
        is_numbered = said.names[-1]
        numbers = named_numbers(_text(_PREFIX.sub(b"", line))) if is_numbered else set()
        before, self._saved = self._saved, numbers | (self._saved or set())
        late = bool(numbers) and numbers <= self._named  # a rank may print it behind the next record
        repeats = before is not None and not (numbers and before and numbers.isdisjoint(before))
        self._named = self._named | numbers if late or repeats else numbers
        return late or repeats

    def _error(self, line: bytes, number: int) -> LogEvent | None:
        """The event of a line that ends a traceback: not indented, and beginning with an exception's name."""
        head = _prefix(line)
        body = line[len(head) :] if head in self._open else b""
        if not body or body[:1] in b" \t|" or not _ERROR.match(body):
            return None
        del self._open[head]
        text = _text(line)
        fatal: Fatal = "failed"
        kind = ""
        for sign in SIGNS:
            if sign.regex.search(body):
                fatal, kind = sign.fatal or fatal, sign.kind or ""
                break
        return LogEvent(kind if kind in ("oom", "nccl", "stop") else "", number, text, fatal=fatal)


class _Save(NamedTuple):
    """What the words of a line about saving say."""

    intends: bool  # to save later
    announces: bool  # and does not say that it is done
    names: tuple[bool, bool, bool]


@lru_cache(maxsize=4096)
def _said(line: bytes) -> _Save:
    announces = _ANNOUNCES.search(line) is not None and not _IS_DONE.search(line)
    return _Save(_INTENT.search(line) is not None, announces, naming(_text(line)))


def _alike(line: bytes) -> bytes:
    """The line with all digits alike, unless they matter: lines that differ in digits only are of one kind."""
    return line if _COUNTS.search(line.lower()) else line.translate(_ALIKE)


@lru_cache(maxsize=4096)
def _sign_of(line: bytes) -> Sign | None:
    """The sign that decides what a line is; None: it says nothing."""
    if not _is_code(line):
        for sign in SIGNS:
            if sign.regex.search(line):
                return sign
    return DONE if COMPLETED.search(line) else None


def _prefix(line: bytes) -> bytes:
    found = _PREFIX.match(line)
    return found.group() if found else b""


def _text(line: bytes) -> str:
    return line.strip().decode(errors="replace")[:500]


_ANNOUNCES = patterns.lazy_regex(rb"(?i)\b(?:saving|writing|checkpointing|snapshotting|storing)\b")
_IS_DONE = patterns.lazy_regex(rb"(?i)\b(?:saved|finished|done|completed|wrote|written)\b")
_INTENT = patterns.lazy_regex(
    rb"(?i)\b(?:will|would|if|when|defaulting|not|never|every|cannot|failed to)\b.{0,40}\bsav(?:e|ed|ing)\b"
    rb"|'checkpoint_path' summary"
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


def cause(events: list[LogEvent], after: int) -> LogEvent | None:
    """The event that ended the run: the first fatal one after line `after`, preferably not a launcher's."""
    fatal = [event for event in events if event.fatal and event.line > after]
    # After a task of a step fails, Slurm cancels the others with the message of a user's cancel.
    failed = next((event.line for event in fatal if "xited with exit code" in event.text), None)
    first_hand = [
        event
        for event in fatal
        if event.fatal != "victim"
        and not (
            failed and event.line > failed and "CANCELLED AT" in event.text and "DUE TO" not in event.text
        )
    ]
    return next(iter(first_hand or fatal), None)


def status(ended_by: LogEvent | None, completed: bool, live: bool) -> Status:
    if ended_by:
        return "interrupted" if ended_by.fatal == "interrupted" else "failed"
    if completed:
        return "completed"
    return "running" if live else "unknown"


RECORDS = ("train", "part", "bar", "eval", "task")


def unread(reading: EngineResult, chunk: Chunk) -> Iterator[tuple[int, bytes, bool]]:
    """Regions without records, as (number of the first line, lines, whether a record stands right before)."""
    data = chunk.data
    hits = [h for h in reading.hits if h.pattern.role in RECORDS]
    if not hits:
        yield 0, data.removesuffix(b"\n"), False
        return
    if sum(len(h.lines) for h in hits) == reading.lines and TRACEBACK[:1] not in data:
        return  # all lines are records, and no traceback was printed into one
    lines = np.concatenate([h.lines for h in hits])
    order = np.argsort(lines, kind="stable")
    lines, starts = lines[order], np.concatenate([h.starts for h in hits])[order]
    glued = _glued(data, starts)
    if len(glued):
        lines, starts = np.delete(lines, glued), np.delete(starts, glued)
    gaps = np.flatnonzero(np.diff(lines, prepend=-1, append=reading.lines) > 1).tolist()
    for gap in gaps:
        begin = data.index(b"\n", int(starts[gap - 1])) + 1 if gap else 0
        end = int(starts[gap]) if gap < len(starts) else len(data)
        yield int(lines[gap - 1]) + 1 if gap else 0, data[begin:end].removesuffix(b"\n"), gap > 0


def strange(reading: EngineResult, first: int, region: bytes) -> bytes:
    """The lines of a region that no pattern has read."""
    numbers = np.arange(first, first + region.count(b"\n") + 1)
    read = np.concatenate([numbers[:0], *(hits.lines for hits in reading.hits)])
    unknown = ~np.isin(numbers, read)
    if not unknown.all():
        region = b"\n".join(np.array(region.split(b"\n"), dtype=object)[unknown])
    return region + b"\n" if unknown.any() else b""


def ends_with_record(reading: EngineResult) -> bool:
    last = reading.lines - 1
    return any(h.pattern.role in RECORDS and int(h.lines[-1]) == last for h in reading.hits)


def _glued(data: bytes, starts: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[int]:
    """Rows of records with a traceback printed into their line."""
    found: list[int] = []
    at = data.find(TRACEBACK) if TRACEBACK[:1] in data else -1  # searching one byte is twenty times as fast
    while at >= 0:
        owner = int(np.searchsorted(starts, at, side="right")) - 1
        if owner >= 0 and b"\n" not in data[int(starts[owner]) : at]:
            found.append(owner)
        at = data.find(TRACEBACK, at + 1)
    return found
