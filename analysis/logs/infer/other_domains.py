"""Lines that speak of loss, steps and rates as other trades do: networks, optics, power, money, servers, code.

A line of another trade is refused before it can become a record. What only a training prints beside it, such as a
learning rate by its full name, outweighs a word of another trade: a part of a loss may have any name.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from gputel.analysis.logs.infer.candidates import Candidate
from gputel.analysis.logs.patterns import lazy_regex

_KINDS_OF_LOSS = (
    rb"packets?|insertion|return|path|link|signal|profit|stop|capital|win|insurance|heat|thermal|weight|hair|blood"
    rb"|hearing|capacity|core|copper|iron|power|energy|pressure|water|memory|data|frames?|time"
)
_OTHER_LOSS = lazy_regex(
    rb"(?i)(?<![a-z])(?:%b)(?:[\s_-](?:[&/]\s?)?)?loss|\bp/l\b|\bloss(?:es)? of\b"
    rb"|\bwin\W+loss|\bpackets transmitted\b"
    rb"|(?<![a-z])loss (?:is |was )?too (?:large|high|big|small|low)"
    rb"|(?<![a-z])loss[\s_](?:ratio|reserve|usd|eur|w|kw|kwh|db|dbm|pct|ml|kg|mm|v|ma)(?![a-z])"
    % _KINDS_OF_LOSS
)
_SERVICE = lazy_regex(
    rb"(?i)(?<![a-z])(?:latency|rps|qps|https?|requests?|users|p9[059](?:_ms)?|errors|packets?|applied|queued|cpu"
    rb"|building|compiling|linking|installing|downloading|copying|uploading|setpoint|claim|shares?|wavelength"
    rb"|voltage(?:_v)?|dbm?|snr|nfev|optimality|accepted|acceptance|autocorr\w*)(?![a-z])"
)
# `test loss of 63 batches` is of a training, `loss of packets` is not
_SET_LOSS_OF = lazy_regex(rb"(?i)\b((?:train(?:ing)?|val(?:id(?:ation)?)?|eval(?:uation)?|test) loss) of ")
_MONEY = lazy_regex(rb"(?i)(?<![a-z])(?:profit|revenue|stop_loss|turnover|dividend)(?![a-z])")
# it may learn to trade
_AGENT = lazy_regex(rb"(?i)(?<![a-z])(?:epochs?|episodes?|rewards?|epsilon)(?![a-z])")
_PATH = lazy_regex(rb"\S*/\S*/\S*")
_URL = lazy_regex(rb'"(?:GET|POST|PUT|HEAD|DELETE) |https?://\S*[?&][\w-]+=|\sHTTP/[12]')
_ASSIGNS = lazy_regex(rb"^(?:[+>] )?[A-Za-z][\w.]* <- [A-Za-z]")  # a line of R, echoed
# source code: `else if (data.loss_option == 1)`
_COMPARES = lazy_regex(rb"\bif\W[^=]*[\w)\]] ?[!=]= ?[\w-]")
# of a search for settings: each trial is a training of its own
_TRIAL = lazy_regex(rb"(?i)^\W*trial #?\d+:? (?:finished|failed|pruned|completed?|ended)\b")
_OF_TRIALS = lazy_regex(rb"(?i)trial \S+ result|result for \S+:")  # what heads the results of one
_DRAWN = lazy_regex(rb"[|+]|[-=*_]{5,}|\xe2[\x94-\x96]")
_PAIR = lazy_regex(rb"[\w./ -]{1,80}:")
_TALLEST = 60  # rows of a box
# an embedding of points, which is drawn
_EMBEDS = lazy_regex(rb"(?i)^\W*t-?sne\W")
_UNIT_BEHIND = lazy_regex(rb" ?(?:dBm?|[kM]?W|kWh|%|USD|EUR|kg|g|ml|l|mm|km|V|mA|Hz|\xc2\xb0C)(?![\w/])")
_MONEY_BEFORE = lazy_regex(rb"(?:\$|\xe2\x82\xac|\xc2\xa3)$")
_TRAINS = lazy_regex(
    r"(?i)^(?:lr|learning[ _-]?rate|grad(?:ient)?[ _-]?norm|train[ _]?loss|val[ _]?loss|loss|(?:\w+ )?psnr)$"
)
_PSNR = lazy_regex(r"(?i)(?:^|[\W_])psnr(?:$|[\W_])")
_DECIBELS = lazy_regex(rb"(?i)(?<![a-z])db(?![a-z])")
_WINS = lazy_regex(r"(?i)(?:wins?|won|draws?)$")
# of no other trade
_SET_LOSS = lazy_regex(r"(?i)^(?:train(?:ing)?|val(?:id(?:ation)?)?|eval(?:uation)?)[ _]loss$")
_NAMED_LOSS = lazy_regex(r"(?i)loss(?:es)?(?:[ _.(-]*(?:avg|mean|value)\W*)?$")
_PART_OF_LOSS = lazy_regex(r"(?i)loss_[a-z]")
_LEARNS = lazy_regex(r"(?i)^(?:lr|learning[ _-]?rate|grad(?:ient)?[ _-]?norm|train[ _]?loss)$")
_POLICY = lazy_regex(r"(?i)^(?:loss_(?:pi?|policy|actor)|(?:pi|policy|actor)_loss)$")
_VALUE = lazy_regex(rb"(?i)(?<![a-z])loss_v(?![a-z])")
_SENTENCE = lazy_regex(rb"[a-z][.!?](?:\s|$)|[\d%] ?[.!?]\s+[A-Z][a-z]")
_WORDS = lazy_regex(rb"(?<![\w=:/-])[a-z]{2,}(?![\w=:/-])")
# a model, and what is done to it
_MODEL = lazy_regex(rb"(?i)(?<![a-z])(?:neural|neuron|layer|activation|learning rate|weight|train|model)")
_TRAINING = lazy_regex(rb"(?i)^\W*training\b|\b(?:start(?:ing|ed)?|begin|before|after) training\b")
_SEVERAL = 4
_OFTEN = 8  # lines; people repeat themselves less
_PROSE = 6  # words of a sentence, besides its figures
_HUNK = lazy_regex(rb"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")
# An optimizer of linear programs, the structure of molecules, the motion of fluids and of atoms
_SOLVER = lazy_regex(
    rb"(?i)(?<![a-z])(?:presolved?|simplex|primal|dual|infeasib\w+|incumbent|nonzeros|crossover|heuristic solution"
    rb"|cutting planes|root relaxation|best bound"
    rb"|hartree|fock|scf|diis|orbitals?|basis (?:set|functions?)|eigenvalues?|dipole|multiplicity|mulliken|ccsd|dft"
    rb"|wave ?functions?|exchange|bohr|electrons?|hamiltonian"
    rb"|courant|residuals?|turbulence|mesh|viscosity|reynolds|velocity|pressure|navier|boundary conditions?"
    rb"|atoms?|lattice|thermostat|temperature|kinetic|pairwise|timestep|simulation box)(?![a-z])"
)
_SPEAKS_OF_TRAINING = lazy_regex(
    rb"(?i)(?<![a-z])(?:loss(?:es)?|epochs?|learning|lr|train(?:ing)?|validation|eval(?:uation)?|rewards?|returns?|episodes?"
    rb"|acc(?:uracy)?|perplexity|ppl|bleu|wer|nll|elbo|map|fid|f1|auc)(?![a-z])"
)


def without_others(candidates: Sequence[Candidate], lines: Sequence[bytes]) -> list[Candidate]:
    """The candidates that may be of a training; none of a patch, and of a solver's output what speaks of one."""
    if any(_HUNK.match(line) for line in lines):
        return []
    kept = [line for line in candidates if not (_is_of_another_trade(line) or _tells_trials(line, lines))]
    trained = [line for line in kept if _SPEAKS_OF_TRAINING.search(line.shape.example)]
    return trained if len(trained) < len(kept) and _solves(lines) else kept


def _tells_trials(line: Candidate, lines: Sequence[bytes]) -> bool:
    """Whether it is a row of what is shown of several trials of a search, each a training of its own."""
    tops = {_top(lines, number) for number in line.shape.lines} if line.shape.slots == 1 else set()
    return len(tops) > 1 and all(map(_OF_TRIALS.fullmatch, tops))


def _top(lines: Sequence[bytes], number: int) -> bytes:
    """The first row with words of the box that a line stands in, or of the pairs."""
    above = [line.strip() for line in lines[max(0, number - _TALLEST) : number + 1]][::-1]
    rows = [*takewhile(_DRAWN.match, above)] or [*takewhile(_PAIR.match, above)]
    words = (row.strip(b" |+-=*_") for row in reversed(rows))
    return next((text for text in words if text[:1].isalpha()), b"")


def _solves(lines: Sequence[bytes]) -> bool:
    """Whether several words of a solver or of a simulation are among them, and few of a model that learns."""
    words = {word.lower() for line in lines for word in _SOLVER.findall(line)}
    return len(words) >= _SEVERAL and not learns(lines)


def learns(lines: Sequence[bytes]) -> bool:
    """Whether a training is announced, or several words of a model that learns are among them."""
    if any(map(_TRAINING.search, lines)):
        return True
    return len({word.lower() for line in lines for word in _MODEL.findall(line)}) >= _SEVERAL


def _is_of_another_trade(line: Candidate) -> bool:
    example = line.shape.example
    if (
        _URL.search(example)
        or _ASSIGNS.match(example)
        or _COMPARES.search(example)
        or _TRIAL.match(example)
        or _EMBEDS.match(example)
        or _is_sentence(line)
        or _has_foreign_unit(line)
        or _counts_games(line)
    ):
        return True
    sources = [value.source for value in line.named]
    text = b" | ".join([*line.shape.words, *(source.encode() for source in sources)])
    text = _PATH.sub(b" ", text)
    if any(map(_PSNR.search, sources)):  # of pictures, in the decibels of optics
        text = _DECIBELS.sub(b" ", text)
    trains = any(map(_LEARNS.match, sources)) or ("loss" in line.columns and _AGENT.search(text) is not None)
    text = _SET_LOSS_OF.sub(rb"\1 ", text)
    if b"loss of " in text.lower() or (_MONEY.search(text) and not trains):
        return True
    if any(map(_SET_LOSS.match, sources)):
        return False
    if any(map(_TRAINS.match, sources)) and (line.place or not _SERVICE.search(text)):
        return False
    if _loses_otherwise(line):
        return False
    if any(map(_POLICY.match, sources)):  # beside it the `Loss_v` is of a value, and not in volts
        text = _VALUE.sub(b" ", text)
    return _OTHER_LOSS.search(text) is not None or _SERVICE.search(text) is not None


def _loses_otherwise(line: Candidate) -> bool:
    """Whether a line that names its place gives a loss of no other trade, or any loss beside its epoch.

    A network of physics has a data loss beside the one of its equations, one of molecules an energy loss. Several
    parts, `loss_critic` and `loss_entropy`, are of no other trade, either.
    """
    if line.place is None or line.place.guessed:
        return False
    sources = [value.source for value in line.named]
    parts = [source for source in sources if _PART_OF_LOSS.match(source)]
    named = [source for source in sources if _NAMED_LOSS.search(source)]
    losses = [source.encode() for source in (named or (parts if len(parts) > 1 else []))]
    return any(not _OTHER_LOSS.search(source) or "epoch" in line.columns for source in losses)


def _is_sentence(line: Candidate) -> bool:
    """Whether it is prose with figures in it; only a program says the same sentence many times."""
    example = line.shape.example
    is_prose = len(_WORDS.findall(example)) > _PROSE and _SENTENCE.search(example) is not None
    return is_prose and line.shape.count < _OFTEN


def _has_foreign_unit(line: Candidate) -> bool:
    """Whether the only loss is in decibels, watts, percent or money."""
    losses = [value for value in line.named if "loss" in (value.column or "")]
    foreign = [value for value in losses if _is_foreign(line.shape.words, value.at)]
    return bool(losses) and len(foreign) == len(losses)


def _counts_games(line: Candidate) -> bool:
    """Whether its losses are whole numbers beside those of games won."""
    losses = [value for cell in line.named if cell.column == "loss" for value in line.shape.column(cell.at)]
    return (
        any(map(_WINS.match, (cell.source for cell in line.named)))
        and bool(losses)
        and all(map(bytes.isdigit, losses))
    )


def _is_foreign(words: Sequence[bytes], at: int) -> bool:
    behind, before = _UNIT_BEHIND.match(words[at + 1]), _MONEY_BEFORE.search(words[at].rstrip())
    return behind is not None or before is not None
