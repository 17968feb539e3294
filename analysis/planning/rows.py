"""A size and a question -> a row: every figure of one run that might be, by the name of its column."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gputel.analysis.planning import data, memory, mfu, network, schedule, words
from gputel.analysis.planning.estimate import Estimate, assumed, computed
from gputel.analysis.planning.memory import Memory, Recipe
from gputel.analysis.planning.pace import HABITS, Pace, pace
from gputel.analysis.planning.question import Question, accumulation
from gputel.analysis.planning.sizes import Size

GIB = memory.GIB
JOULES_PER_KWH = 3.6e6
LOAD = (0.85, 0.6, 1.0)  # of a board's power limit, while it trains
ROUNDING = 0.01
NEAREST = "the users' shape with about as many parameters"
RECOMPUTING = 0.75  # of the MFU is left: one forward pass in four is done twice

Figures = dict[str, Estimate]


@dataclass(frozen=True)
class Row:
    """`fits` is "fits", "tight" (within the range) or "no"; `changes` says what would make it fit."""

    size: Size
    recipe: Recipe
    figures: Figures
    fits: str
    changes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        return self.size.name


def row(question: Question, size: Size) -> Row:
    """With the largest batch that fits, where none was asked for; the smallest, where none does."""
    candidates = [(recipe, held(question, size, recipe)) for recipe in question.recipes(size.shape.seq)]
    recipe, parts = next(
        (found for found in candidates if verdict(question, found[1]) == "fits"),
        next(
            (found for found in candidates if verdict(question, found[1]) == "tight"),
            candidates[-1],
        ),
    )
    figures = {**_shape(question, size, recipe), **_time(question, size, recipe), **_memory(question, parts)}
    warnings = tuple(_warnings(question, size, figures))
    return Row(size, recipe, figures, verdict(question, parts), warnings=warnings)


def held(question: Question, size: Size, recipe: Recipe) -> Memory:
    """The parts of memory; those that come and go as the run that was measured had them, where there is one."""
    parts = memory.of(size, recipe, question.machine, _micro_batches(question, size, recipe))
    moving = question.like.moving if question.like else None
    return moving.carried(parts) if moving else parts


def verdict(question: Question, parts: Memory) -> str:
    total, there = memory.total(parts), question.machine.gpu.memory_gib * GIB
    return "no" if total.value > there else "tight" if total.high > there else "fits"


def _shape(question: Question, size: Size, recipe: Recipe) -> Figures:
    shape = size.shape
    how = "the parameters given: six FLOPs each" if size.shape_is_guessed else "the shape"
    dimensions = {"depth": shape.depth, "dim": shape.dim, "heads": shape.heads}

    def known(value: int) -> Estimate:
        return assumed(value, value, value, NEAREST) if size.shape_is_guessed else computed(value)

    micro = _micro_batches(question, size, recipe)
    return {
        **{name: known(value) for name, value in dimensions.items()},
        "vocab": computed(shape.vocab),
        "seq": computed(shape.seq),
        "parameters": computed(size.parameters, how),
        "flops_per_token": computed(size.flops_per_token, how),
        "tokens_per_step": computed(question.tokens_per_step),
        "device_batch": computed(recipe.device_batch),
        "accumulation": computed(micro, "tokens a step / (batch x sequence x GPUs)"),
    }


def expected_mfu(question: Question, size: Size, recipe: Recipe) -> Estimate:
    like, gpu, width = question.like and question.like.run, question.machine.gpu, size.shape.dim
    if like and like.mfu:
        found = mfu.carried(like.mfu, like.size.shape.dim, width)
        if like.machine and like.machine.gpu != gpu:
            found = mfu.on_another_gpu(found)
    else:
        found = mfu.expected(width, gpu, recipe.device_batch * size.shape.seq)
    return found * RECOMPUTING if recipe.recompute else found


def _time(question: Question, size: Size, recipe: Recipe) -> Figures:
    machine, micro = question.machine, _micro_batches(question, size, recipe)
    share = expected_mfu(question, size, recipe)
    compute_s = float(question.tokens_per_step * size.flops_per_token) / (share * (machine.peak_flops / 100))
    figures: Figures = {}
    step_s = compute_s
    nodes = network.between_nodes(size, recipe, machine, micro, compute_s)
    gathered = network.gathering(size, recipe, machine, micro, compute_s)
    for traffic in (nodes, gathered):
        if traffic:
            step_s = step_s + traffic.seconds
            figures["sent_gb"] = computed(traffic.bytes_per_node / 1e9, "a ring over the nodes' gradients")
            figures["communication_s"] = traffic.seconds
    made = schedule.schedule(size, recipe, 1, question.save_every, question.keep)
    habits = question.like.habits if question.like else HABITS
    rhythm = pace(step_s, question.tokens_per_step, habits, made.checkpoint_bytes, question.save_every)
    steps = _steps(question, size, rhythm)
    return {
        "mfu": share * (compute_s.value / step_s.value) if figures else share,
        "dt_ms": step_s * 1000,
        "tok_per_sec": float(question.tokens_per_step) / step_s,
        **figures,
        "steps": steps,
        "tokens": steps * question.tokens_per_step,
        "tokens_per_parameter": steps * question.tokens_per_step / size.parameters,
        **_cost(question, rhythm, steps),
        **_reading(question, size, int(steps.value)),
        **_saving(question, size, recipe, rhythm, int(steps.value)),
    }


def _micro_batches(question: Question, size: Size, recipe: Recipe) -> int:
    return accumulation(question.tokens_per_step, recipe.device_batch, size.shape.seq, question.machine.count)


def _steps(question: Question, size: Size, rhythm: Pace) -> Estimate:
    """Whole steps; those that time and money allow are as uncertain as the pace."""
    if question.steps is not None:
        return computed(question.steps, "steps given")
    if question.tokens is not None:
        return computed(max(1, question.tokens // question.tokens_per_step), "--tokens / tokens a step")
    if question.most_hours is not None:
        steps = rhythm.steps_in(3600 * question.most_hours)
        return steps.as_("as many as time and money allow")
    wanted = int(question.ratio * size.parameters) // question.tokens_per_step
    return computed(max(1, wanted), f"{question.ratio:g} tokens a parameter / tokens a step")


def _cost(question: Question, rhythm: Pace, steps: Estimate) -> Figures:
    """A run that ends with its hours or its money costs those; any other is as uncertain as its pace."""
    hours = rhythm.seconds(int(steps.value)) / 3600
    if steps.is_range:
        hours = computed(hours.value, "what was allowed")
    watts = _watts(question)
    figures = {
        "train_hours": rhythm.step_s * int(steps.value) / 3600,
        "hours": hours,
        "energy_kwh": hours * watts * (3600 * question.machine.count / JOULES_PER_KWH),
        "power_w": watts,
        "start_s": rhythm.start_s,
        "eval_hours": rhythm.evaluating_s * int(steps.value) / 3600,
        "save_hours": rhythm.saving_s * int(steps.value) / 3600,
    }
    if question.price is not None:
        figures["dollars"] = hours * (question.price * question.machine.count)
    return figures


def _watts(question: Question) -> Estimate:
    """Of one GPU; the rest of the machine is not counted."""
    like, limit = question.like and question.like.run, question.machine.gpu.power_w
    if like and like.watts:
        return like.watts * (limit / like.machine.gpu.power_w if like.machine else 1.0)
    source = "60 to 100% of the power limit"
    return assumed(LOAD[0] * limit, LOAD[1] * limit, LOAD[2] * limit, source)


def _reading(question: Question, size: Size, steps: int) -> Figures:
    read = data.reading(steps * question.tokens_per_step, size.shape.vocab, question.data_tokens)
    return {"shards": read.shards} | ({"epochs": read.epochs} if read.epochs else {})


def _saving(question: Question, size: Size, recipe: Recipe, rhythm: Pace, steps: int) -> Figures:
    made = schedule.schedule(size, recipe, steps, question.save_every, question.keep)
    lost = schedule.lost_s(made, steps, rhythm.with_all_s, rhythm.start_s) / 3600
    figures = {
        "checkpoints": computed(made.count + 1, "steps / --save-every, and the last"),
        "checkpoint_gb": computed(made.checkpoint_bytes / 1e9, "weights and the optimizer's state"),
        "weights_gb": computed(made.weights_bytes / 1e9, "weights alone"),
        "disk_gb": computed(made.disk_bytes / 1e9, "checkpoints that are kept"),
        "interruption_hours": lost,
    }
    if question.price is not None:
        figures["interruption_dollars"] = lost * (question.price * question.machine.count)
    return figures


def _memory(question: Question, parts: Memory) -> Figures:
    total = memory.total(parts)
    spare = question.machine.gpu.memory_gib - total.value / GIB
    figures = {f"{name}_gib": part / GIB for name, part in parts.items()}
    figures["memory_gib"] = total / GIB
    figures["spare_gib"] = Estimate(
        spare,
        question.machine.gpu.memory_gib - total.high / GIB,
        question.machine.gpu.memory_gib - total.low / GIB,
        total.origin,
        total.sources,
    )
    return figures


def _warnings(question: Question, size: Size, figures: Figures) -> Iterable[str]:
    shape, limit = size.shape, question.most_hours
    if size.shape_is_guessed:
        yield f"gives no shape: memory and MFU are those of {shape.depth} layers, {shape.dim:,} wide"
    if limit is not None and figures["hours"].value > limit * (1 + ROUNDING):
        cost = question.dollars(figures["hours"].value)
        paid = f" and {words.dollars(cost)}" if cost is not None else ""
        yield f"takes {words.hours(figures['hours'].value)}{paid}; {words.hours(limit)} are allowed"
    epochs = figures.get("epochs")
    if epochs and epochs.value > data.MOST_EPOCHS:
        yield f"reads its data {epochs.value:.3g} times; past {data.MOST_EPOCHS} it learns little more from them"
