"""A question, a size and a recipe -> figures of the run: MFU, steps, hours, energy, cost, data, checkpoints."""

from __future__ import annotations

from gputel.analysis.plan import mfu, pace
from gputel.analysis.plan.estimate import Estimate, Figures, assumed, computed
from gputel.analysis.plan.inputs import Size
from gputel.analysis.plan.memory import Recipe
from gputel.analysis.plan.pace import HABITS, Pace, step_pace
from gputel.analysis.plan.question import Question
from gputel.analysis.text import JOULES_PER_KWH

LOAD = (0.85, 0.6, 1.0)  # of a board's power limit during training
FP32 = (0.5, 0.06, 0.5)
RECOMPUTING = 0.75  # share of the MFU that remains: the forward pass, a quarter of the work, runs twice


def figures(question: Question, size: Size, recipe: Recipe) -> Figures:
    """Returns the course of a run by column name."""
    share = expected_mfu(question, size, recipe)
    work = float(question.tokens_per_step * size.flops_per_token)
    compute_s = 100 * work / (share * question.machine.peak_flops)
    travel = _travel(question, size, recipe, compute_s)
    step_s = compute_s + travel["communication_s"] if travel else compute_s
    rhythm = _rhythm(question, size, recipe, step_s)
    steps = _steps(question, size, rhythm)
    return {
        "mfu": share * (compute_s.value / step_s.value),
        "dt_ms": step_s * 1000,
        "tok_per_sec": float(question.tokens_per_step) / step_s,
        **travel,
        "steps": steps,
        "tokens": steps * question.tokens_per_step,
        "tokens_per_parameter": steps * question.tokens_per_step / size.parameters,
        **_cost(question, rhythm, steps),
        **_reading(question, size, int(steps.value)),
        **_saving(question, size, recipe, rhythm, int(steps.value)),
    }


def expected_mfu(question: Question, size: Size, recipe: Recipe) -> Estimate:
    like, gpu, width = question.like and question.like.run, question.machine.gpu, size.shape.dim
    if not like or not like.mfu:
        figure = mfu.expected(width, gpu, recipe.device_batch * size.shape.seq, compiled=recipe.compiled)
        return figure * _work_done_twice(recipe) * _slower_numbers(recipe)
    figure = mfu.carried(like.mfu, like.size.shape.dim, width)
    if like.machine and like.machine.gpu != gpu:
        figure = mfu.on_another_gpu(figure, like.machine.gpu.name, gpu)
    if like.recipe.compiled and not recipe.compiled:
        figure = mfu.without_compiling(figure)
    figure *= _work_done_twice(recipe) / _work_done_twice(like.recipe)
    return figure if recipe.dtype == like.recipe.dtype else figure * _slower_numbers(recipe)


def _work_done_twice(recipe: Recipe) -> float:
    return RECOMPUTING if recipe.recompute else 1.0


def _slower_numbers(recipe: Recipe) -> Estimate | float:
    """Returns the factor for fp32: MFU is relative to the 16-bit peak, which fp32 cannot reach."""
    return assumed(*FP32, "fp32 as TF32 at half the peak, or without it") if recipe.dtype == "fp32" else 1.0


def _travel(question: Question, size: Size, recipe: Recipe, compute_s: Estimate) -> Figures:
    """Returns communication between nodes or for sharded weights; nothing where any MFU includes it."""
    micro = question.micro_batches(size, recipe)
    between = pace.gathering if question.machine.nodes == 1 else pace.between_nodes
    traffic = between(size, recipe, question.machine, micro, compute_s)
    if traffic is None:
        return {}
    return {
        "sent_gb": computed(traffic.bytes_per_node / 1e9, "parameters x bytes, around a ring"),
        "communication_s": traffic.seconds,
    }


def _rhythm(question: Question, size: Size, recipe: Recipe, step_s: Estimate) -> Pace:
    habits = question.like.habits if question.like else HABITS
    made = pace.schedule(size, recipe, 1, question.save_every, question.keep)
    return step_pace(step_s, question.tokens_per_step, habits, made.checkpoint_bytes, question.save_every)


def _steps(question: Question, size: Size, rhythm: Pace) -> Estimate:
    """Returns whole steps; those limited by time or money are as uncertain as the pace."""
    if question.steps is not None:
        return computed(question.steps, "steps given")
    if question.tokens is not None:
        return computed(max(1, question.tokens // question.tokens_per_step), "--tokens / tokens per step")
    if question.most_hours is not None:
        steps = rhythm.steps_in(3600 * question.most_hours)
        return steps.as_("as many as time and money allow")
    wanted = int(question.ratio * size.parameters) // question.tokens_per_step
    return computed(max(1, wanted), f"{question.ratio:g} tokens per parameter / tokens per step")


def _cost(question: Question, rhythm: Pace, steps: Estimate) -> Figures:
    """Returns hours, energy and cost; a run limited by hours or money costs exactly those."""
    hours = rhythm.seconds(int(steps.value)) / 3600
    if steps.is_range:
        hours = computed(hours.value, "what was allowed")
    watts = _watts(question)
    costs = {
        "train_hours": rhythm.step_s * int(steps.value) / 3600,
        "hours": hours,
        "energy_kwh": hours * watts * (3600 * question.machine.count / JOULES_PER_KWH),
        "power_w": watts,
        "start_s": rhythm.start_s,
        "eval_percent": rhythm.evaluating * 100,
        "eval_hours": rhythm.evaluating_s * int(steps.value) / 3600,
        "save_hours": rhythm.saving_s * int(steps.value) / 3600,
    }
    if question.price is not None:
        costs["dollars"] = hours * (question.price * question.machine.count)
    return costs


def _watts(question: Question) -> Estimate:
    """Returns power per GPU, without the rest of the machine."""
    like, limit = question.like and question.like.run, question.machine.gpu.power_w
    if like and like.watts:
        return like.watts * (limit / like.machine.gpu.power_w if like.machine else 1.0)
    source = "60 to 100% of the power limit"
    return assumed(LOAD[0] * limit, LOAD[1] * limit, LOAD[2] * limit, source)


def _reading(question: Question, size: Size, steps: int) -> Figures:
    read = pace.reading(steps * question.tokens_per_step, size.shape.vocab, question.data_tokens)
    return {"shards": read.shards} | ({"epochs": read.epochs} if read.epochs else {})


def _saving(question: Question, size: Size, recipe: Recipe, rhythm: Pace, steps: int) -> Figures:
    made = pace.schedule(size, recipe, steps, question.save_every, question.keep)
    lost = pace.lost_s(made, steps, rhythm.with_all_s, rhythm.start_s) / 3600
    saves = {
        "checkpoints": computed(made.count + 1, "steps / --save-every, plus the last"),
        "checkpoint_gb": computed(made.checkpoint_bytes / 1e9, "weights and the optimizer's state"),
        "weights_gb": computed(made.weights_bytes / 1e9, "weights alone"),
        "disk_gb": computed(made.disk_bytes / 1e9, "kept checkpoints"),
        "interruption_hours": lost,
    }
    if question.price is not None:
        saves["interruption_dollars"] = lost * (question.price * question.machine.count)
    return saves
