"""A printed name and unit -> the column, as columns.py names it.

`lm loss`, `train_loss` and `loss/train/total` are `loss`. An unknown name stays as printed, made legal, with its
unit behind it, so every metric has a column.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping

from gputel.analysis.logs import values
from gputel.analysis.logs.patterns import Field
from gputel.analysis.logs.values import Scale

NULLS = frozenset({b"N/A", b"n/a", b"NA", b"-", b"--", b"None", b"none", b"null", b"Null", b""})

_ALIASES: Mapping[str, Iterable[str]] = {
    "step": "step global_step trainer_global_step train_step optimizer_step opt_step num_updates update updates "
    "n_updates train_global_step completed_step current_step current_steps steps_done step_num training_step "
    "gradient_step".split(),
    "iteration": "iteration iter iters it iterations itr current_iteration iter_num".split(),
    "batch": "batch batch_idx batch_index minibatch mini_batch batch_num".split(),
    "total_steps": "total_steps max_steps num_steps total_iterations max_iters".split(),
    "epoch": "epoch epochs ep train_epoch current_epoch".split(),
    "loss": "loss train_loss training_loss lm_loss total_loss loss_total loss_train_total train_total_loss trl "
    "loss_train reduced_train_loss train_loss_step loss_step training_loss_step global_avg_loss train_lm_loss "
    "lm_loss_training language_model_loss curr_loss step_loss batch_loss cur_loss current_loss trn_loss tr_loss "
    "gpt_loss losses_total_loss all_loss loss_all overall_loss loss_overall tot_loss loss_tot "
    "total_train_loss total_training_loss overall_train_loss overall_training_loss".split(),
    "loss_avg": "loss_avg avg_loss average_loss mean_loss loss_mean running_loss smoothed_loss "
    "loss_smoothed loss_ema ema_loss train_loss_avg avg_train_loss train_loss_epoch loss_epoch moving_loss "
    "smooth_loss avg_loss_train avr_loss epoch_loss".split(),
    "val_loss": "val_loss eval_loss valid_loss validation_loss test_loss tel dev_loss loss_val val_loss_epoch "
    "loss_validation loss_eval loss_dev loss_valid loss_test loss_eval_total val_total_loss eval_total_loss "
    "loss_val_total validation_total_loss vloss valid_loss_epoch vl_loss vali_loss heldout_loss "
    "held_out_loss va_loss te_loss".split(),
    "val_bpb": "val_bpb validation_bpb eval_bpb valid_bpb".split(),
    "core_metric": "core_metric core".split(),
    "hellaswag": "hellaswag hella hellaswag_accuracy hellaswag_acc".split(),
    "lr": "lr learning_rate learningrate last_lr lr_current current_lr cur_lr train_lr lr_0 lr0 learn_rate "
    "train_learning_rate optim_lr optimizer_lr model_lr".split(),
    "lrm": "lrm lr_multiplier".split(),
    "grad_norm": "grad_norm gradient_norm gnorm norm gradnorm grad_norms total_grad_norm train_grad_norm "
    "grad_l2_norm grad_global_norm global_grad_norm total_norm optim_grad_norm gradient_norms".split(),
    "dt_ms": "dt dt_ms step_time step_time_ms iter_time iteration_time elapsed_time_per_iteration time_per_step "
    "time_per_iteration time_per_iter ms_per_step step_ms step_dt ms_per_iter ms_per_batch ms_per_iteration "
    "elapsed_time_per_iteration_ms train_step_timing train_step_timing_in_s "
    "sec_per_step sec_per_iter s_per_step seconds_per_step batch_time "
    "time_per_batch iter_dt steptime "
    "elapsed_time_per_step step_duration step_time_s step_time_seconds sec_per_iteration secs_per_step".split(),
    "tok_per_sec": "tok_per_sec tok_sec tokens_per_sec tokens_per_second tokens_sec tok_s tokens_s tps toks_s "
    "tok_per_s tokens_per_s throughput_tokens_per_sec toks_per_sec token_per_sec token_s wps".split(),
    "mfu": "mfu bf16_mfu mfu_pct mfu_percent model_flops_utilization".split(),
    "total_time_min": "total_time total_time_min total_time_m elapsed_min elapsed_minutes elapsed elapsed_time "
    "time_elapsed".split(),
    "eta_min": "eta eta_min time_left time_remaining remaining remaining_time eta_minutes".split(),
    "tokens": "tokens total_tokens tokens_seen consumed_tokens train_tokens num_tokens_seen tokens_total "
    "ntokens_total total_tokens_seen seen_tokens num_input_tokens_seen tokens_processed".split(),
}
_COLUMNS = {alias: column for column, aliases in _ALIASES.items() for alias in aliases}
_RESERVED = frozenset({"index", "length", "count", "total"})  # what formats call the place of a line
_STAMPS = frozenset(
    "timestamp asctime datetime date_time _timestamp ts created_at logged_at wall_time".split()
)
_LOSSES = frozenset({"loss", "loss_avg", "val_loss"})
_KEPT_IN = {
    "dt_ms": ("ms", "s"),  # the unit of the column, and the one assumed if none is printed
    "total_time_min": ("min", ""),
    "eta_min": ("min", ""),
    "tok_per_sec": ("count", ""),
    "tokens": ("count", ""),
}
_UNSAID = frozenset({"total_time_min", "eta_min"})  # of seconds, minutes or hours, unless a unit is printed
PER_GPU = "per_gpu"  # the unit of a rate that a format prints for one of the GPUs
_KEY_UNITS = re.compile(r"^(.*?)[ _]*[(\[]([^()\[\]]+)[)\]]$")
_KEY_ENDINGS = (
    ("_ms", "ms"),
    ("ms_per_", "ms"),
    ("_min", "min"),
    ("_s", "s"),
    ("_minutes", "min"),
    ("_m", "min"),
)
TRAINING = r"train(?:ing)?"
HELD_OUT = r"vali?|valid(?:ate|ation)?|eval(?:uation)?|evl|test|dev"
EVALUATING = rf"{HELD_OUT}|validating|evaluating|testing"  # in sentences
BEGINS_HELD_OUT = rf"^(?:(?:avg|average|mean|running|total|final)_)?(?:{HELD_OUT})_"
_EVALUATION = re.compile(
    rf"{BEGINS_HELD_OUT}|_(?:vali?|valid|eval|test|(?<!std_)(?<!standard_)dev)(?:_pct)?$|^cv_agg_s_(?!train)"
    r"|^(?:va|te)_(?:loss|acc|ppl|err|f1|auc|iou|dice|mae|mse|rmse)"
    r"|^(?!(?:with|and|of|on|in|at|by|for|the|ckpt|checkpoint|saved|loaded|last|previous|prev|old)_)[a-z]+_"
    r"(?:vali?|valid|eval|test)_"
    r"(?:loss|acc(?:uracy)?|ppl|err(?:or)?|f1|auc|ap|m?iou|dice|mae|mse|rmse)(?:_pct)?$",
    re.IGNORECASE,
)


_SET_FIRST = re.compile(BEGINS_HELD_OUT, re.IGNORECASE)
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")  # of `valLoss`
# of PPO's value function, as TRL prints them: `val/clipfrac_avg`
_OF_VALUES = re.compile(r"(?i)^val_(?:clip_?frac|ratio|num_eos)")
_HOW_OFTEN = re.compile(
    r"(?i)^(?:eval|val|valid|validation|test)_(?:every|freq\w*|interval|stride)(?:_\w+)?$"
)
_EXTREME = "best|lowest|highest|minimum|maximum|min|max"
SO_FAR = re.compile(rf"(?i)_(?:{_EXTREME}|so_far)$|^(?:{_EXTREME})_")


def is_evaluation(column: str) -> bool:
    """Whether it is a column of evaluations, such as `val_acc`; the role of a line takes precedence.

    `val_loss_best` and `best_val` repeat one, and are none; `val_ratio` is of a value function, or a share of the
    data, and `eval_every` a setting.
    """
    if column in ("core_metric", "hellaswag"):
        return True
    if _OF_VALUES.match(column) or _HOW_OFTEN.match(column):
        return False
    return _EVALUATION.search(column) is not None and SO_FAR.search(column) is None


def measure_of(column: str) -> str:
    """The measure of an evaluation, whatever its set: `loss` of `test_loss`."""
    return _SET_FIRST.sub("", column).lower()


def held_out_set(word: str) -> str:
    """`test` of `Testing`, `dev`, and `val` of any other word for data that are held out."""
    return next((name for name in ("test", "dev") if word.lower().startswith(name)), "val")


def legal(name: str) -> str:
    """The name as a column: letters of any script, digits and `_`."""
    return re.sub(r"_?\W+_?", "_", unicodedata.normalize("NFC", name)).strip("_") or "value"


def title(name: str) -> str:
    """The name of a table's column; `total` stands beside the parts of the loss."""
    return "loss" if name == "total" else legal(name)


class Vocabulary:
    """The names that all formats share, with those of one format taking precedence.

    `own` maps a printed name to a column, or to a column and the unit that the format means without printing it
    (`"time" = "dt_ms s"`), or to nothing to ignore the pair (`"eta" = ""`). `nulls` are texts by column.
    """

    def __init__(self, own: Mapping[str, str] = {}, nulls: Mapping[str, Iterable[str]] = {}) -> None:
        self._own = {_normal(name): target.split() for name, target in own.items()}
        self._nulls = {column: frozenset(t.encode() for t in texts) for column, texts in nulls.items()}
        self._known: dict[tuple[bytes, bytes], Field | None] = {}

    def field(self, key: bytes, unit: bytes) -> Field | None:
        try:
            return self._known[key, unit]
        except KeyError:
            found = self._look_up(key, unit)
            if len(self._known) < 4096:
                self._known[key, unit] = found
            return found

    def named(self, column: str, source: str, unit: str | None = None, kind: str = "") -> Field:
        """The field of a regex group whose column the format states."""
        nulls = self._nulls_of(column)
        if kind in ("text", "clock"):
            scale = _seconds(column) if kind == "clock" else values.KEPT
            return Field(column, source, unit, kind, *scale, nulls=nulls)  # type: ignore[arg-type]
        return Field(column, source, unit, "number", *_scale(column, unit or "")[1], nulls=nulls)

    def _look_up(self, key: bytes, unit: bytes) -> Field | None:
        source = key.decode(errors="replace").strip()
        name, bracketed = source.removesuffix("()"), source.endswith("()")
        name, printed = self._unit_of(name, unit.decode(errors="replace"))
        if printed == "clock":
            return self._clock(name, source)
        if bracketed:
            return self._second(name, printed)
        column, assumed = self._column(name, printed)
        if column is None:
            return None
        if column == "time" and not printed:
            return Field("time", source, None, "text", nulls=NULLS)
        column, scale = _scale(column, values.plain(printed), assumed)
        shown = printed or (assumed if assumed == PER_GPU else None)
        return Field(column, source, shown, "number", *scale, nulls=self._nulls_of(column))

    def _unit_of(self, name: str, unit: str) -> tuple[str, str]:
        """`elapsed time per iteration (ms)` has its unit in the name; what the format knows as a whole has none."""
        found = _KEY_UNITS.match(name)
        if found and not unit and _normal(name) not in self._own:
            return found[1], found[2]
        return name, unit

    def _column(self, name: str, printed: str) -> tuple[str | None, str]:
        """The column and the unit that is assumed; a span of the run without a unit keeps its own name."""
        own = self._own.get(_normal(name))
        if own is not None:
            return (own[0], own[1] if len(own) > 1 else "") if own else (None, "")
        normal = _normal(name)
        if normal == "time" and values.plain(printed) == "ms":
            return "dt_ms", ""
        if normal in _STAMPS:
            return "time", ""
        normal = normal if normal in _COLUMNS else _normal(_HUMP.sub("_", name))
        column = _COLUMNS.get(normal)
        assumed = _assumed(column, normal) if column else ""
        if column and (printed or assumed or column not in _UNSAID):
            return column, assumed
        own_name = legal(name)
        split = legal(_HUMP.sub("_", name))
        own_name = split if is_evaluation(split) and not is_evaluation(own_name) else own_name
        return f"{own_name}_" if own_name in _RESERVED else own_name, ""

    def _clock(self, name: str, source: str) -> Field | None:
        """The field of a clock: a duration if the name says so, else a time of day, which has none."""
        column, _ = self._column(name, "clock")
        if column not in ("dt_ms", *_UNSAID):
            return None
        return Field(column, source, "clock", "clock", *_seconds(column))

    def _second(self, name: str, printed: str) -> Field | None:
        """The field of a number in brackets behind a value: an average, a share, a z-score."""
        column, assumed = self._column(name, printed)
        if not column or column == "time":
            return None
        if printed in ("%", "z"):
            ending = "pct" if printed == "%" else "z"
            scores = column in _LOSSES and "loss" not in name.lower()  # `Val: 1.387 (21.8%)`
            column = f"{legal(name) if scores else column}_{ending}"
            return Field(column, f"{name} ({ending})", printed, nulls=self._nulls_of(column))
        column, scale = _scale(column, values.plain(printed), assumed)
        return Field(f"{column}_avg", f"{name} (avg)", printed or None, "number", *scale, nulls=NULLS)

    def _nulls_of(self, column: str) -> frozenset[bytes]:
        return NULLS | self._nulls.get(column, frozenset())


def _normal(name: str) -> str:
    """The name as aliases have it; letters that no alias has stay, so that the rest is no other name."""
    return re.sub(r"[\W_]+", "_", name.lower()).strip("_")


def _assumed(column: str, name: str) -> str:
    if column not in _KEPT_IN:
        return ""
    for ending, unit in _KEY_ENDINGS:
        if name.endswith(ending) or (name.startswith(ending) and ending.endswith("_")):
            return unit
    return "s" if name in ("elapsed", "elapsed_time", "time_elapsed") else _KEPT_IN[column][1]


def _seconds(column: str) -> Scale:
    """The scale of a clock, as a factor: its text has no exponent to move."""
    scale = _scale(column, "s")[1]
    return Scale(0, scale.times * 10**scale.shift, scale.over)


def _scale(column: str, unit: str, assumed: str = "") -> tuple[str, Scale]:
    """The column's final name and the scale for a number in this unit; 11.5K of milliseconds are 11,500."""
    kept = _KEPT_IN.get(column.removesuffix("_avg"))
    if kept:
        table = values.CANONICAL[kept[0]]
        if unit in values.COUNTS and table is not values.COUNTS:
            scale = table.get(assumed, values.KEPT)
            return column, scale._replace(shift=scale.shift + values.COUNTS[unit].shift)
        return column, table.get((unit or assumed).removesuffix("/it"), values.KEPT)
    bytes_ = unit in values.COUNTS and "mem" in column.lower()  # `8.21G` of memory is not a count
    if unit in values.COUNTS and not bytes_:
        return column, values.COUNTS[unit]
    if not (unit or assumed) or column in _COLUMNS:
        return column, values.KEPT
    ending = f"{unit.lower()}b" if bytes_ else values.ending(unit or assumed)
    return (column if column.lower().endswith(f"_{ending}") else f"{column}_{ending}"), values.KEPT
