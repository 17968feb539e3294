"""What `gputel plan` was asked, as a question; and the plan, as people read it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputel.cli import show, sources
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.figures.panel import Table
    from gputel.analysis.planning.calibrate import Calibration
    from gputel.analysis.planning.check import Check
    from gputel.analysis.planning.machine import Machine
    from gputel.analysis.planning.memory import Recipe
    from gputel.analysis.planning.plan import Plan
    from gputel.analysis.planning.question import Question
    from gputel.analysis.planning.sizes import Size

WIDTH = 80
WORDS = 46  # of the last column of a table of sentences
SECONDS_PER_HOUR = 3600

Asked = dict[str, Any]


def plan(asked: Asked) -> Plan:
    from gputel.analysis.planning import plan as planning

    if not any(asked[name] for name in ("depth", "params", "layers", "hours", "budget")):
        raise GputelError(
            "gputel plan",
            "nothing to plan was named",
            "say --depth 16,20,24, --params 1.5B or --layers; or --budget or --hours for the largest that fits",
            exit_code=2,
        )
    _refuse_nonsense(asked)
    like = _like(asked)
    question, shape = _question(asked, like), _shape(asked, like)
    target = _target(asked, question)
    sizes = _sizes(asked, shape)
    if sizes:
        return planning.of_sizes(question, sizes, target)
    return planning.of_limits(question, _of_depth(shape), target)


def _refuse_nonsense(asked: Asked) -> None:
    named = [f"--{name}" for name in ("depth", "params", "layers") if asked[name]]
    if len(named) > 1:
        raise GputelError(
            " ".join(named), "each name what to plan, and one does", "leave out the others", exit_code=2
        )
    lone = [f"--{name}" for name in ("dim", "heads", "tied") if asked[name] and not asked["layers"]]
    if lone:
        raise GputelError(lone[0], "is the shape of --layers", "say --layers 12 too", exit_code=2)


def check(word: str, asked: Asked) -> Check:
    from gputel.analysis.planning import check as checking

    if asked["csv"] or asked["html"]:
        raise GputelError(
            "--check", "is printed, or given as JSON", "leave out --csv and --html", exit_code=2
        )
    _refuse_nonsense(asked)
    like = _like(asked)
    sizes = _sizes(asked, _shape(asked, like))
    if len(sizes) > 1:
        raise GputelError(
            "--check", "needs one size, and several were named", "name that of the run", exit_code=2
        )
    size = sizes[0] if sizes else None
    return checking.check(
        sources.one_subject(word), _recipe(asked, like), _machine(asked), like, asked["price"], size
    )


def print_plan(plan: Plan, *, as_json: bool) -> None:
    from gputel.analysis.planning import answer, sections

    if as_json:
        show.as_json(answer.answer(plan))
        return
    show.say(_wrapped(sections.heading(plan)))
    for table in sections.tables(plan):
        _print(table)
    refused = [target.words for target in plan.targets if not target.possible]  # `conclude` says them
    _print_remarks([remark for remark in sections.remarks(plan) if remark not in refused])


def print_check(found: Check, *, as_json: bool) -> int:
    from gputel.analysis.planning import check as checking
    from gputel.analysis.planning import sections

    if as_json:
        show.as_json(checking.answer(found))
    else:
        _print(sections.check_table(found))
        _print_remarks(list(found.notes))
    return 0


def write(plan: Plan, kind: str, out: Path, *, force: bool) -> None:
    from gputel.analysis.planning import files

    show.note(f"wrote {files.write(plan, kind, out, force=force)}")


def conclude(plan: Plan) -> int:
    """A rate that no GPU of this kind reaches is refused in one line."""
    impossible = [target.words for target in plan.targets if not target.possible]
    if impossible:
        raise GputelError("--target-tok-s", f"impossible: {'; '.join(impossible)}")
    return 0


def _question(asked: Asked, like: Calibration | None) -> Question:
    """What was not said is as in the run that the plan is corrected by."""
    from gputel.analysis.planning.question import TOKENS_PER_STEP, Question

    run = like.run if like else None
    machine = _machine(asked) or (run.machine if run else None)
    if machine is None:
        fault = "the GPUs are not named" + (f", and {run.run} does not tell its own" if run else "")
        raise GputelError("gputel plan", fault, "say --on 2xH100", exit_code=2)
    return Question(
        machine,
        _recipe(asked, like),
        device_batch=asked["device_batch_size"] or (run.device_batch if run else None),
        tokens_per_step=asked["total_batch_size"]
        or (run.tokens_per_step if run else None)
        or TOKENS_PER_STEP,
        ratio=asked["ratio"],
        tokens=asked["tokens"],
        hours=asked["hours"],
        budget=asked["budget"],
        price=asked["price"],
        data_tokens=asked["data_tokens"],
        save_every=asked["save_every"],
        keep=asked["keep"],
        like=like,
    )


def _shape(asked: Asked, like: Calibration | None) -> dict[str, int]:
    from gputel.analysis.planning import sizes

    known = like.run.size.shape if like else None
    return {
        "vocab": asked["vocab"] or (known.vocab if known else sizes.VOCAB),
        "seq": asked["seq"] or (known.seq if known else sizes.SEQ),
    }


def _recipe(asked: Asked, like: Calibration | None = None) -> Recipe:
    from gputel.analysis.planning.memory import Recipe

    base = like.run.recipe if like else Recipe(1)
    return Recipe(
        asked["device_batch_size"] or base.device_batch,
        optimizer=asked["optimizer"] or base.optimizer,
        dtype=asked["dtype"] or base.dtype,
        shard=asked["shard"] or base.shard,
        loss=asked["loss"] or base.loss,
        recompute=asked["recompute"] or base.recompute,
        compiled=base.compiled and not asked["eager"],
        flash=base.flash and not asked["plain_attention"],
    )


def _machine(asked: Asked) -> Machine | None:
    from gputel.analysis.planning.machine import machine

    words, nodes, link = asked["on"], asked["nodes"], asked["link"]
    return machine(words, nodes=nodes, link_bytes_s=link) if words else None


def _sizes(asked: Asked, shape: dict[str, int]) -> list[Size]:
    """Those that were named, in one of the three ways."""
    from gputel.analysis.planning import sizes, words

    if asked["layers"]:
        if asked["dim"] is None:
            raise GputelError("--layers", "needs the width too", "say --dim 768", exit_code=2)
        return [sizes.of_layers(asked["layers"], asked["dim"], asked["heads"], tied=asked["tied"], **shape)]
    if asked["params"]:
        return [sizes.of_parameters(count, words.large(count), **shape) for count in asked["params"]]
    return [_of_depth(shape)(depth) for depth in asked["depth"] or ()]


def _of_depth(shape: dict[str, int]) -> Callable[[int], Size]:
    from gputel.analysis.planning import sizes

    return lambda depth: sizes.of_depth(depth, **shape)


def _target(asked: Asked, question: Question) -> float | None:
    if asked["target_steps_h"]:
        return float(asked["target_steps_h"]) * question.tokens_per_step / SECONDS_PER_HOUR
    return None if asked["target_tok_s"] is None else float(asked["target_tok_s"])


def _like(asked: Asked) -> Calibration | None:
    """`--on` names the GPUs of the plan; only a run that does not tell its own is taken to have had the same."""
    if not asked["like"]:
        return None
    from gputel.analysis.planning.calibrate import calibration
    from gputel.analysis.planning.known import machine_of

    subject = sources.one_subject(asked["like"])
    given = None if machine_of(subject) else _machine(asked)
    return calibration(subject, _recipe(asked), given)


def _print(table: Table) -> None:
    """Sentences in the last column are folded by words, which a terminal would not do."""
    show.say("")
    rows = [
        [*row[:-1], textwrap.fill(str(row[-1]), WORDS)] if _is_prose(row[-1]) else row for row in table.rows
    ]
    show.table(table.columns, rows, title=table.title)


def _is_prose(cell: object) -> bool:
    return isinstance(cell, str) and len(cell) > WORDS


def _print_remarks(remarks: list[str]) -> None:
    if remarks:
        show.say("")
    for remark in remarks:
        show.say(_wrapped(remark))


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
