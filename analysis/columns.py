"""Names, types and units of the columns of every table, and which direction of a metric is better.

Telemetry's columns are declared by `telemetry/readings.py`. A metric that is not named here keeps its own printed
name, with its unit behind it, as a 64-bit float.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from gputel.telemetry.errors import GputelError

Direction: TypeAlias = Literal["lower", "higher"]


class Column(NamedTuple):
    """`unit` is what the numbers are in; None where they have none or keep the printed one."""

    name: str
    kind: str  # "whole", "number", "text" or "time"
    unit: str | None
    meaning: str


STEPS = (
    Column("step", "whole", None, "the optimizer step, else iteration, else batch, else a whole epoch"),
    Column("total_steps", "whole", None, "planned length of the run"),
    Column("epoch", "number", None, "as printed; fractions too"),
    Column("loss", "number", None, "the total training loss, the current one"),
    Column("lr", "number", None, "learning rate"),
    Column("lrm", "number", None, "multiplier of the learning rate"),
    Column("grad_norm", "number", None, "norm of the gradient"),
    Column("dt_ms", "number", "ms", "time of a step"),
    Column("tok_per_sec", "number", "tok/s", "throughput"),
    Column("mfu", "number", "%", "model FLOPs utilization"),
    Column("total_time_min", "number", "min", "training time so far"),
    Column("tokens", "number", None, "tokens so far"),
    Column("eta_min", "number", "min", "time left"),
    Column("time", "time", None, "when the line was written"),
)
PLACE = (
    Column("phase", "text", None, "the stage that the log announces, else train"),
    Column("attempt", "whole", None, "counts restarts of the same steps"),
    Column("line", "whole", None, "line of the log, from 1; a fraction where gputel.log gave the row"),
    Column("rank", "text", None, "the rank or host that printed the line"),
    Column("node", "text", None, "the node that recorded the line, where several did"),
    Column("origin", "text", None, "api where gputel.log gave the row or values, else printed"),
)
EVALS = (
    *PLACE[:2],
    Column("step", "whole", None, "the evaluated step"),
    Column(
        "after", "whole", None, "the record above, where the log leaves open when between the two it was made"
    ),
    Column("name", "text", None, "val_loss, val_bpb, core_metric, hellaswag, a benchmark's task"),
    Column("value", "number", None, "as printed"),
    PLACE[2],
    STEPS[-1],
    PLACE[3],
)
EVENTS = (
    Column(
        "kind", "text", None, "checkpoint, eval, resume, restart, epoch, nan, oom, nccl, traceback or stop"
    ),
    Column("line", "whole", None, "line of the log, from 1"),
    Column("step", "whole", None, "the last step before it; of a checkpoint the one that it names"),
    STEPS[-1],
    PLACE[3],
    Column("text", "text", None, "the line"),
)
SPANS = (
    Column("kind", "text", None, "start, train, eval, checkpoint or idle"),
    *PLACE[:2],
    Column("step", "whole", None, "step of the record, evaluation or checkpoint"),
    Column("steps", "whole", None, "steps that a record covers; 0 for a part of its training"),
    Column("start", "time", None, "when it began"),
    Column("end", "time", None, "when it ended"),
    Column("text", "text", None, "the names of the evaluations, or the line of the checkpoint"),
)
MEASURES = (
    Column("duration_s", "number", "s", "how long it took"),
    Column("measured", "number", None, "share of it, over all GPUs, in which power was measured"),
    Column("power_mean_w", "number", "W", "of all GPUs together"),
    Column("power_peak_w", "number", "W", "the most that all GPUs drew at one moment"),
    Column("energy_j", "number", "J", "each power reading held until the next"),
    Column(
        "energy_sampling_j", "number", "J", "standard error of it, as power jumped from reading to reading"
    ),
    Column("energy_counter_j", "number", "J", "by the driver's counter, interpolated at the edges"),
    Column("energy_difference", "number", None, "relative difference of the first from the second"),
    Column("refreshes", "number", None, "how often power changed, on the GPU with the fewest changes"),
    Column("util", "number", "%", "mean of the GPUs"),
    Column("util_error", "number", "%", "90 % range of it, as it jumped from reading to reading"),
    Column("util_changes", "number", None, "how often it changed, on the GPU with the fewest changes"),
    Column("temp_c", "number", "°C", "mean of the hottest GPU"),
    Column("temp_peak_c", "number", "°C", "the hottest reading of any GPU"),
    Column("sm_mhz", "number", "MHz", "mean clock of the GPUs"),
    Column("mem_peak_mib", "number", "MiB", "sum of the GPUs' peaks"),
    Column("throttled_s", "number", "s", "time throttled, on the GPU with the most"),
    Column("sm_active", "number", "%", "mean of the GPUs"),
    Column("tensor_active", "number", "%", "mean of the GPUs"),
    Column("dram_active", "number", "%", "mean of the GPUs"),
)
"""The measured columns of a span, a step, or a sum of either."""

VALIDATION = ("val_loss", "val_bpb")
MAIN = ("loss", *VALIDATION)
"""The metrics that come first wherever several are shown."""
FIRST_USERS = ("step", "loss", "grad_norm", "lrm", "dt_ms", "tok_per_sec", "mfu", "total_time_min")
"""The columns that the first users' scripts write, in their order; `--csv` writes them first."""

UNKNOWN_DIRECTION = "its name does not say whether lower or higher is better"
LOWER = frozenset(
    """loss losses ce bce xent nll nlls nelbo ppl perplexity perplexities bpb bpc bpd bpw mse msle rmse
    rmsle mae mape smape mase nrmse cer wer ter mer der eer err error errors fid kid lpips fvd fad mcd
    distortion brier ece ade fde fpr fnr regret latency latencies time runtime duration elapsed dt delay
    wait ttft tpot itl memory mem vram ram gib mib gb mb energy joules kwh cost costs dollars usd
    failures timeouts""".split()
)
HIGHER = frozenset(
    """acc accs accuracy accuracies bleu sacrebleu chrf comet meteor rouge rougel rougelsum cider spice
    bertscore bleurt map mar ap ar iou miou giou diou ciou dice jaccard pck f1 f2 f1score fscore prec
    precision recall sensitivity specificity tpr tnr auc auroc auprc aupr prauc rocauc roc mcc kappa
    ndcg mrr hits corr correlation pearson spearman kendall r2 psnr ssim msssim snr sdr sisdr sisnr pesq
    stoi mos dnsmos is rew reward rewards return returns margins elbo loglikelihood success successes
    win wins winrate correct match em elo mfu hfu throughput goodput bandwidth tflops gflops pflops tps
    tgs sps fps ips qps wps ups""".split()
)
PHRASES: Mapping[tuple[str, ...], Direction | None] = {
    ("false", "positive"): "lower",
    ("false", "negative"): "lower",
    ("true", "positive"): "higher",
    ("true", "negative"): "higher",
    ("cross", "entropy"): "lower",
    ("negative", "log", "likelihood"): "lower",
    ("log", "likelihood"): "higher",
    ("edit", "distance"): "lower",
    ("frechet", "distance"): "lower",
    ("explained", "variance"): "higher",
    ("r", "squared"): "higher",
    ("acc", "norm"): "higher",
    ("inception", "score"): "higher",
    ("bert", "score"): "higher",
    ("clip", "score"): "higher",
    ("hit", "rate"): "higher",
    ("pass", "rate"): "higher",
    ("time", "step"): None,
    ("feature", "map"): None,
    ("attention", "map"): None,
}
"""Word groups whose meaning differs from that of their single words."""

BENCHMARKS = frozenset(
    """core hellaswag mmlu arc piqa siqa winogrande winograd boolq lambada gsm8k humaneval mbpp triviaqa
    squad coqa copa openbookqa openbook obqa csqa commonsenseqa commonsense agieval agi bbh bigbench
    ifeval gpqa aime glue superglue jeopardy truthfulqa mmmu sst2 mrpc qnli mnli cola wsc sciq""".split()
)
"""Benchmarks: a name without another measure is the score, as in `arc_easy`, `core_metric`."""

RANKED = ("top", "pass", "hit")
"""Measures only if a number follows: `top1`, `pass@1`, but not `top_p`, `forward_pass`."""

QUALIFIERS = frozenset(
    """train training val valid validation eval evaluation test dev holdout avg average mean median min max
    sum total best last final ema smoothed raw running global local epoch iter batch step micro macro
    weighted at k l lsum none rate score metric cased uncased strict flexible peak alloc allocated
    reserved used gpu cuda rank node p j""".split()
)
"""Words that may follow the measure without changing it: `loss_avg`, `error_rate`, `latency_p99`, `energy_j`."""

OTHER_THINGS = frozenset(
    """std stdev stderr var variance coef coefficient weight weights scale threshold target limit budget
    gap diff difference delta change num n count counts free available""".split()
)
"""Words that turn a measure into something else: `reward_std`, `loss_scale`, `n_errors`, `free_memory`."""

NOT_SCORES = frozenset(
    """acc accuracy accuracies scaler scaling fraction ratio norm lr size steps tokens samples examples
    epochs params interval""".split()
)
"""Words that may not follow a leading `loss` or benchmark; any other word names a part of it."""

COUNTED = frozenset(
    f"{word}{ending}"
    for word in """tok token sample img image example step it iter iteration update batch seq sequence word frame
    sentence item row request query byte char episode game gb mb kb gib mib flop gflop tflop pflop""".split()
    for ending in ("", "s", "es")
)
SECONDS = frozenset("ms us ns s sec secs second seconds".split())
TIMES = SECONDS | frozenset("min minute minutes h hr hour hours day days".split())
SPENT = TIMES | frozenset(
    """time j joule joules wh kwh energy cost dollars usd memory mem gb gib mb mib bits""".split()
)
PAID = frozenset("j joule wh kwh dollar usd watt w".split())
CHUNK, PIECE = re.compile(r"[^\W_]+"), re.compile(r"[^\W\d]+|\d+")
CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[^A-Za-z]+")
SLASH = re.compile(r"/(?=(?:s|secs?|seconds?)(?![^\W_]))|(?<=\bs)/|(?<=\bms)/|(?<=\bsec)/")  # tok/s, ms/step

UNITS = {column.name: column.unit for column in STEPS if column.unit}


def in_order(names: list[str]) -> list[str]:
    """The columns of a table of steps: place, the names above, then what else was printed, in the log's order."""
    known = [*(c.name for c in PLACE[:2]), *(c.name for c in STEPS), *(c.name for c in PLACE[2:])]
    return [*(name for name in known if name in names), *(name for name in names if name not in known)]


def better(name: str, asked: Mapping[str, Direction] | None = None) -> Direction | None:
    """Returns which direction of a metric is better: as `asked`, else from the words of its name.

    None where the name does not settle it: `loss_scale`, `grad_norm`, `kl`, `lr`, unknown words.
    """
    return asked[name] if asked and name in asked else _by_name(name)


def better_or_refuse(
    name: str, asked: Mapping[str, Direction] | None = None, hint: str | None = None
) -> Direction:
    """Returns what `better` returns; raises GputelError, naming the flags, if the direction is unknown."""
    direction = better(name, asked)
    if direction is None:
        flags = f"add --lower {name} or --higher {name}"
        raise GputelError(name, UNKNOWN_DIRECTION, hint or flags, exit_code=2)
    return direction


def directions(lower: Collection[str], higher: Collection[str]) -> dict[str, Direction]:
    """Merges `--lower NAME` and `--higher NAME`; raises GputelError if a name is under both."""
    for name in lower:
        if name in higher:
            fault, hint = "is both --lower and --higher", "keep one of the two"
            raise GputelError(name, fault, hint, exit_code=2)
    return {**dict.fromkeys(lower, "lower"), **dict.fromkeys(higher, "higher")}


def is_pace(name: str) -> bool:
    """Returns whether a metric is a rate, a time with its unit, or MFU."""
    words = _words(name)
    rate = any(pair[0] == "per" and pair[1] in TIMES for pair in pairwise(words))
    return rate or "mfu" in words or words[-1:] in ([unit] for unit in SECONDS)


@lru_cache(maxsize=1024)
def _by_name(name: str) -> Direction | None:
    words = _words(name)
    if "per" in words[1:-1]:
        per = words.index("per", 1)
        return _by_ratio(words[:per], words[per + 1 :])
    return _by_words(words)


def _by_ratio(over: Sequence[str], under: Sequence[str]) -> Direction | None:
    """Judges `tokens_per_sec`, `ms_per_step`, `tokens_per_joule`; otherwise judges the part before `per`."""
    counts = over[-1] in COUNTED or (over[-1] in QUALIFIERS and any(word in COUNTED for word in over))
    if OTHER_THINGS.intersection([*over, *under]):
        return None
    if counts and (under[0] in TIMES or under[0] in PAID):
        return "higher"
    if over[-1] in SPENT and under[0] not in TIMES:
        return "lower"
    return _by_words(over)


def _by_words(words: Sequence[str]) -> Direction | None:
    measure = list(words)
    while measure and (measure[-1].isdigit() or measure[-1] in QUALIFIERS or measure[-1] in BENCHMARKS):
        measure.pop()
    for phrase, direction in PHRASES.items():
        if phrase in (tuple(words[-len(phrase) :]), tuple(measure[-len(phrase) :])):
            return direction
    if OTHER_THINGS.intersection(words):
        return None
    if len(words) > 1 and words[-1] in SECONDS:
        return "lower"
    leader, *parts = [word for word in words if word not in QUALIFIERS] or [""]
    if leader == "loss":
        return None if NOT_SCORES.intersection(parts) else "lower"
    if not measure or measure[-1] in RANKED:
        return "higher" if _is_scored(words) else None
    if measure[-1] in LOWER | HIGHER:
        return (
            "lower"
            if measure[-1] in LOWER
            else "higher"
            if measure[-1] != "is" or words[-1] == "is"
            else None
        )
    return "higher" if leader in BENCHMARKS and not NOT_SCORES.intersection(parts) else None


def _is_scored(words: Sequence[str]) -> bool:
    """Returns whether words without a measure name a benchmark, a score or a rank: `mmlu`, `val_score`, `top1`."""
    named = [word for word in words if word != "at"]
    ranked = any(a in RANKED and b.isdigit() for a, b in pairwise(named))
    return ranked or words[-1:] == ["score"] or bool(BENCHMARKS.intersection(words))


def _words(name: str) -> list[str]:
    """Splits a name at punctuation, digits and camel case, but keeps known words whole (`mIoU`, `f1`)."""
    parts = []
    for chunk in CHUNK.findall(SLASH.sub("_per_", name)):
        for piece in [chunk] if chunk.lower() in KNOWN else PIECE.findall(chunk):
            parts += [piece] if piece.lower() in KNOWN else CAMEL.findall(piece)
    return [word.lower() for word in parts]


KNOWN = LOWER | HIGHER | BENCHMARKS | QUALIFIERS | OTHER_THINGS | NOT_SCORES | COUNTED | SPENT
