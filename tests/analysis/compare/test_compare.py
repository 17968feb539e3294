"""Runs beside each other: at equal what, in which phase, by which metric, and who is left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from html import unescape
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gputel
from gputel.analysis.compare import Comparison, axes, compare, summary
from gputel.analysis.compare.settings import shown
from gputel.analysis.documents.compare import about, without_shared
from gputel.analysis.runs import RunData
from gputel.analysis.runs import read_run as subject_of
from gputel.telemetry.errors import GputelError
from tests.analysis.stores.compose_events import losses, version

SAMPLES = Path(__file__).parents[3] / "sample_logs"
D16, D24 = SAMPLES / "d16-base.log.gz", SAMPLES / "d24-base.log.gz"
BANNER = "Number of parameters: {parameters}\nTotal batch size {batch} => gradient accumulation steps: 1\n"
START = datetime(2026, 11, 21, 10, tzinfo=timezone.utc)

Write = Callable[..., Path]


def falling(step: float) -> float:
    return 9 - step / 1000


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A log of the given steps: `loss`, `extra` and what stands `before` and `after` them are the test's."""

    def write(
        name: str,
        steps: range | list[int],
        loss: Callable[[float], float] = falling,
        extra: Callable[[int], str] = lambda step: "",
        before: str = "",
        after: str = "",
    ) -> Path:
        path = tmp_path / f"{name}.log"
        path.parent.mkdir(exist_ok=True)
        lines = [f"step {step} | loss: {loss(step):.6f}{extra(step)}\n" for step in steps]
        path.write_text(before + "".join(lines) + after)
        return path

    return write


def at_milestones(found: Comparison) -> dict[float, list[float | None]]:
    return {x: rows["value"].to_list() for (x,), rows in found.milestones.group_by("x", maintain_order=True)}


def only(frame: pl.DataFrame, **where: object) -> dict[str, object]:
    rows = frame.filter(*(pl.col(name) == value for name, value in where.items()))
    return rows.row(0, named=True)


def test_milestones_match_the_handmade_table_to_the_digit() -> None:
    """The five rows that they made by hand, differences from unrounded losses."""
    found = compare([D16, D24])
    result = found.milestones.with_columns(pl.col("value", "difference").round(4))
    sixteen, other = (result.filter(run=run).drop("run").rows() for run in ("d16-base", "d24-base"))
    assert [(int(x), value) for x, value, *_ in sixteen] == [
        (0, 11.0904), (1000, 3.4627), (5000, 3.0704), (10000, 2.9700), (12000, 2.9072),
    ]  # fmt: skip
    assert [(value, off) for _, value, off, _ in other] == [
        (11.0904, 0.0), (3.3553, -0.1074), (2.9279, -0.1425), (2.8135, -0.1565), (2.8153, -0.0918),
    ]  # fmt: skip
    assert found.cautions == dict.fromkeys(("d16-base", "d24-base"), "synthetic log")


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (0, [0]),
        (9, [0, 1, 5, 9]),
        (29, [0, 1, 5, 10, 29]),
        (99, [0, 1, 5, 10, 50, 99]),
        (300, [0, 10, 50, 100, 300]),
        (813, [0, 10, 50, 100, 500, 810]),
        (999, [0, 10, 50, 100, 500, 990]),
        (1000, [0, 1000]),
        (4321, [0, 1000, 4000]),
        (5000, [0, 1000, 5000]),
        (12431, [0, 1000, 5000, 10000, 12000]),
        (50000, [0, 1000, 5000, 10000, 50000]),
        (123456, [0, 1000, 5000, 10000, 50000, 100000, 123000]),
        (float("nan"), []),
    ],
)
def test_milestones_are_ones_and_fives_from_a_thousand_on_and_fit_shorter_runs_too(
    end: float, expected: list[float]
) -> None:
    assert summary.steps(end) == expected


@given(st.floats(1e-6, 1e22))
def test_rounds_of_any_axis_grow_and_stay_within_what_all_reached(end: float) -> None:
    found = summary.rounds(end)
    assert found == sorted(set(found))
    assert end * 0.9 <= found[-1] <= end * (1 + 1e-6)
    assert len(found) <= 9


def test_milestone_between_two_records_is_interpolated_and_says_so(write: Write) -> None:
    every_third = write("a", range(1, 3001, 3))
    every = write("b", range(3001))
    found = compare([every_third, every])
    result = found.milestones.filter(pl.col("x") == 1000)
    assert result["value"].to_list() == [pytest.approx(8), pytest.approx(8)]
    assert result["interpolated"].to_list() == [False, False]
    result = found.milestones.filter(pl.col("x") == 2000)
    assert result["value"].to_list() == [pytest.approx(7), pytest.approx(7)]
    assert result["interpolated"].to_list() == [True, False]
    assert only(found.milestones, x=0, run="a")["value"] is None


def test_runs_stand_in_the_order_given_and_differ_from_the_first(write: Write) -> None:
    low, high = write("low", range(1001), lambda step: 2.0), write("high", range(1001), lambda step: 2.5)
    assert compare([high, low]).runs == ["high", "low"]
    assert only(compare([high, low]).milestones, x=0, run="low")["difference"] == -0.5
    assert only(compare([low, high]).milestones, x=0, run="high")["difference"] == 0.5


@pytest.fixture
def two_phases(tmp_path: Path) -> list[Path]:
    """Logs that hold 90 steps of base and then 30 of mid training."""

    def records(count: int, loss: float) -> str:
        return "".join(
            f"step {n:05d}/{count:05d} (0%) | loss: {loss + n / 1000:.4f} | lrm: 1.00\n" for n in range(count)
        )

    paths = [tmp_path / "a.log", tmp_path / "b.log"]
    for i, path in enumerate(paths):
        base, mid = records(90, 5 + i), records(30, 2 + i)
        path.write_text(f"{base}Saved to base_checkpoints/d4\nLoading model from base_checkpoints/d4\n{mid}")
    return paths


def test_runs_of_several_phases_are_compared_in_the_shared_one_with_most_steps(
    two_phases: list[Path],
) -> None:
    found = compare(two_phases)
    assert (found.phase, found.phases) == ("base", ["base", "mid"])
    assert at_milestones(found)[0] == [5.0, 6.0]
    assert list(at_milestones(found)) == [0, 1, 5, 10, 50, 89]
    assert only(found.equal, axis="step", run="b")["x"] == 89
    first = about(found)
    assert first == "phase base of 2 runs (also shared: mid; --phase chooses): loss by step"


def test_phase_can_be_chosen(two_phases: list[Path]) -> None:
    found = compare(two_phases, phase="mid")
    assert at_milestones(found)[0] == [2.0, 3.0]
    assert found.summary["steps"].to_list() == [30, 30]


def test_log_that_names_no_phase_is_compared_with_one_that_does() -> None:
    found = compare([D16, D24])
    assert found.phase == "base"
    assert found.summary["phase"].to_list() == ["base", "train"]


def test_phases_without_a_common_name_have_nothing_in_common() -> None:
    with pytest.raises(GputelError, match="nothing in common: no phase that two runs have") as error:
        compare([D16, SAMPLES / "mid-training.log"])
    assert error.value.exit_code == 1


def test_phase_that_was_asked_for_and_is_not_there_is_an_error() -> None:
    with pytest.raises(GputelError, match=r"nothing in common: no phase sft \(there is base\)"):
        compare([D16, D16], phase="sft")


def test_runs_whose_steps_do_not_meet_have_nothing_in_common(write: Write) -> None:
    early, late = write("early", range(100)), write("late", range(500, 600))
    with pytest.raises(GputelError, match="early ends at step 99, and late begins at 500"):
        compare([early, late])


def test_one_of_three_that_cannot_be_compared_is_left_out_with_a_sentence(write: Write) -> None:
    a, b = write("a", range(50)), write("b", range(50))
    found = compare([a, SAMPLES / "no-step-evaluation.log", b])
    assert found.runs == ["a", "b"]
    assert "left out: no-step-evaluation: no loss" in found.notes


def test_different_tokenizers_are_compared_by_bits_per_byte_and_the_reason_is_said(write: Write) -> None:
    def bits(step: int) -> str:
        return f"\nStep {step} | Validation bpb: {1 - step / 1000:.4f}"

    a = write("a", range(100), extra=bits, before="Vocab size: 50,304\n")
    b = write("b", range(100), extra=bits, before="Vocab size: 65,536\n")
    for asked in (None, "loss", "val_bpb"):
        found = compare([a, b], metric=asked, target={})
        assert found.metric == "val_bpb"
    why = "their tokenizers differ (vocabularies of 50,304 and 65,536)"
    found = compare([a, b], target={"loss": 8.95, "val_bpb": 0.95})
    assert f"compared by val_bpb (bits per byte) instead of loss: {why}" in found.notes
    assert found.targets.select("metric", "run", "step").rows() == [
        ("val_bpb", "a", 50),
        ("val_bpb", "b", 50),
    ]


def test_different_tokenizers_without_bits_per_byte_cannot_be_compared(write: Write) -> None:
    a = write("a", range(100), before="Vocab size: 50,304\n")
    b = write("b", range(100), before="Vocab size: 65,536\n")
    with pytest.raises(GputelError, match="cannot be compared: their tokenizers differ"):
        compare([a, b])


def test_counter_from_zero_has_done_one_step_more_than_it_says(write: Write) -> None:
    """At its last record each has seen 100 batches, by whatever number it calls the step."""
    banner = BANNER.format(parameters=1000, batch=2048)
    zero = write("zero", range(100), before=banner)
    one = write("one", range(1, 101), before=banner)
    result = compare([zero, one]).summary
    assert result["tokens"].to_list() == [204_800, 204_800]
    assert result["flops"].to_list() == [204_800 * 6000, 204_800 * 6000]
    assert result["tokens_per_parameter"].to_list() == [204.8, 204.8]


def test_evaluation_lies_before_the_step_that_it_names(write: Write) -> None:
    banner = BANNER.format(parameters=1000, batch=100)
    evals = [
        write(n, range(11), extra=lambda s: f"\nStep {s} | Validation loss: {s}", before=banner) for n in "ab"
    ]
    found = compare(evals, metric="val_loss", by="tokens")
    assert found.curves.filter(run="a").select("step", "tokens").rows()[:3] == [(0, 0), (1, 100), (2, 200)]
    assert compare(evals, by="tokens").curves.filter(run="a")["tokens"].to_list()[:2] == [100, 200]


def test_record_stands_for_all_steps_since_the_one_before(write: Write) -> None:
    dt = " | dt: 500.00ms"
    every = write("every", range(1, 101), extra=lambda step: dt)
    tenth = write("tenth", range(10, 101, 10), extra=lambda step: dt)
    from_zero = write("from-zero", range(0, 101, 10), extra=lambda step: dt)
    result = compare([every, tenth, from_zero]).summary
    assert result["time_s"].to_list() == [50.0, 50.0, 50.5]
    assert result["steps"].to_list() == [100, 100, 101]


def test_time_is_reported_by_a_clock_that_all_runs_have(write: Write) -> None:
    def both(step: int) -> str:
        return f" | dt: 1000.00ms | total time: {step / 60:.4f}m"

    a = write("a", range(100), extra=both)
    b = write("b", range(100), extra=lambda step: " | dt: 1000.00ms")
    c = write("c", range(100), extra=lambda step: f" | total time: {step / 60:.4f}m")
    assert compare([a, b]).summary["time_s"].to_list() == [100.0, 100.0]
    assert compare([a, c]).summary["time_s"].to_list() == pytest.approx([99.0, 99.0], abs=0.01)
    assert compare([a, c]).notes == [f"time is {axes.CLOCKS['clock']}"]
    assert compare([b, c]).notes == [
        f"time of b is {axes.CLOCKS['dt']}",
        f"time of c is {axes.CLOCKS['clock']}",
    ]


def test_time_counts_what_a_restart_threw_away_and_tokens_do_not(write: Write) -> None:
    steps = [*range(60), *range(40, 100)]
    banner = BANNER.format(parameters=1000, batch=10)
    again = write("again", steps, extra=lambda step: " | dt: 1000.00ms", before=banner)
    through = write("through", range(100), extra=lambda step: " | dt: 1000.00ms", before=banner)
    result = compare([through, again]).summary
    assert result["time_s"].to_list() == [100.0, 120.0]
    assert result["tokens"].to_list() == [1000, 1000]
    assert result["interruptions"].to_list() == [0, 1]


def test_clock_that_a_restart_set_back_goes_on(write: Write) -> None:
    def counted(total: list[float]) -> Callable[[int], str]:
        minutes = iter(total)
        return lambda step: f" | total time: {next(minutes):.2f}m"

    a = write("a", [0, 1, 2, 1, 2, 3], extra=counted([1, 2, 3, 1, 2, 3]))
    b = write("b", [0, 1, 2, 3], extra=counted([1, 2, 3, 4]))
    assert compare([a, b]).summary["time_s"].to_list() == [360.0, 240.0]


def test_records_of_a_log_that_prints_no_steps_are_counted(tmp_path: Path) -> None:
    """The Hugging Face Trainer prints its epoch, and no step."""
    for name, off in (("a", 0.0), ("b", 0.5)):
        lines = [
            f"{{'loss': {5 - n / 10 + off:.4f}, 'learning_rate': 1e-4, 'epoch': {n / 10}}}\n"
            for n in range(1, 21)
        ]
        lines.insert(10, f"{{'eval_loss': {4 + off}, 'eval_runtime': 1.0, 'epoch': 1.0}}\n")
        (tmp_path / f"{name}.log").write_text("".join(lines))
    runs = [tmp_path / "a.log", tmp_path / "b.log"]
    found = compare(runs)
    assert found.metric == "loss"
    assert only(found.equal, axis="step", run="b") == {
        "axis": "step", "x": 20.0, "run": "b", "value": 3.5, "difference": 0.5,
    }  # fmt: skip
    assert "a, b: no steps are printed, so records are counted" in found.notes
    result = compare(runs, metric="val_loss").validations
    assert only(result, run="a") == {
        "name": "val_loss", "run": "a", "best": 4.0, "best_step": 10.0, "last": 4.0, "last_step": 10.0,
    }  # fmt: skip
    with pytest.raises(GputelError, match="--by tokens: a: it tells neither its tokens"):
        compare(runs, by="tokens")


def test_evaluations_alone_are_compared_by_step_and_by_nothing_else(write: Write) -> None:
    banner = BANNER.format(parameters=1000, batch=100)
    evals = "".join(f"Step {n} | Validation loss: {5 - n / 10}\n" for n in range(0, 30, 10))
    a, b = (write(name, [], before=banner, after=evals) for name in "ab")
    found = compare([a, b])
    assert (found.metric, found.axes) == ("val_loss", ["step"])
    assert found.equal["axis"].to_list() == ["step", "step"]
    with pytest.raises(GputelError, match="--by tokens: a: it has evaluations but no records"):
        compare([a, b], by="tokens")


def test_loss_that_is_no_number_is_no_point(write: Write) -> None:
    a = write("a", range(50), lambda step: float("nan") if step > 40 else 2.0)
    b = write("b", range(50), lambda step: 1.0)
    found = compare([a, b])
    assert only(found.equal, axis="step", run="b")["x"] == 40
    assert found.curves.filter(run="a").height == 41


def test_equal_is_where_the_shortest_ends_on_every_axis_that_all_have(write: Write) -> None:
    fast = write("fast", range(101), extra=lambda step: " | dt: 1000.00ms")
    slow = write("slow", range(201), extra=lambda step: " | dt: 4000.00ms")
    result = compare([fast, slow]).equal
    assert result["axis"].unique(maintain_order=True).to_list() == ["step", "time"]
    assert only(result, axis="step", run="slow") == {
        "axis": "step", "x": 100.0, "run": "slow", "value": falling(100), "difference": 0.0,
    }  # fmt: skip
    at_time = only(result, axis="time", run="slow")
    assert at_time["x"] == 101.0
    assert at_time["value"] == pytest.approx(falling(24.25), abs=1e-6)


def test_epochs_have_no_values_beside_steps_and_the_reason_is_said(write: Write, tmp_path: Path) -> None:
    """Keras' table counts epochs: epoch 5 and step 5 are different places."""
    table = tmp_path / "keras.csv"
    table.write_text("epoch,loss,val_loss\n" + "".join(f"{n},{4 - n / 10},{5 - n / 10}\n" for n in range(12)))
    found = compare([table, write("batches", range(500))])
    assert "steps of keras are epochs, and those of batches are not: no values at equal steps" in found.notes
    assert found.milestones.is_empty()
    assert found.common.is_empty()
    assert "step" not in found.equal["axis"]
    assert found.summary["steps"].to_list() == [12, 500]
    alike = compare([table, subject_of(table)])
    assert at_milestones(alike)[5] == [3.5, 3.5]
    assert not any("epochs" in note for note in alike.notes)


def test_epochs_are_compared_with_steps_by_a_cost_that_both_have(write: Write, tmp_path: Path) -> None:
    """Keras' event files have the epoch in the tags alone, and times."""
    folder = tmp_path / "keras"
    folder.mkdir()
    (folder / "events.out.tfevents.1.a.1.0.v2").write_bytes(version() + losses(range(12), "epoch_loss", 10))
    batches = write("batches", range(500), extra=lambda step: " | dt: 500.00ms")
    found = compare([folder, batches], by="time")
    note = (
        "steps of keras are epochs, and those of batches are not: no values at equal steps; compare by time"
    )
    assert note in found.notes
    assert found.equal["axis"].unique().to_list() == ["time"]
    assert not found.milestones.is_empty()


def test_target_costs_steps_time_and_dollars(write: Write) -> None:
    gpus = "world_size: 4\n"
    a = write("a", range(1001), extra=lambda step: " | dt: 3600.00ms", before=gpus)
    b = write("b", range(101), extra=lambda step: " | dt: 3600.00ms", before=gpus)
    result = compare([a, b], price=2.5, target={"loss": 8.5}).targets
    found = only(result, run="a")
    assert found["step"] == 500
    assert found["time_s"] == pytest.approx(501 * 3.6)
    assert found["cost"] == pytest.approx(501 * 3.6 / 3600 * 4 * 2.5)
    assert only(result, run="b")["step"] is None


def test_target_of_an_accuracy_is_reached_from_below(write: Write) -> None:
    a, b = (write(n, range(11), extra=lambda s: f"\nStep {s} | Validation accuracy: {s / 10}") for n in "ab")
    names = compare([a, b]).lines[0].track.subject.log.evals["name"].unique().to_list()
    assert len(names) == 1
    result = compare([a, b], target={names[0]: 0.5}).targets
    assert result["step"].to_list() == [5, 5]


def test_target_of_an_error_is_reached_from_above(write: Write) -> None:
    a, b = (write(n, range(11), extra=lambda step: f" | mse: {4.5 - step / 2}") for n in "ab")
    result = compare([a, b], target={"mse": 1.0}).targets
    assert result["step"].to_list() == [7, 7]


def test_metric_of_unknown_direction_has_no_target_and_no_best_unless_it_is_said(write: Write) -> None:
    a, b = (write(n, range(11), extra=lambda s: f"\nStep {s} | Validation quux: {s / 10}") for n in "ab")
    (name,) = set(compare([a, b]).lines[0].track.subject.log.evals["name"].to_list())
    with pytest.raises(GputelError, match=f"add --lower {name} or --higher {name}"):
        compare([a, b], target={name: 0.5})
    unsaid = compare([a, b], metric=name)
    assert unsaid.better is None
    assert unsaid.validations["best"].to_list() == [None, None]
    assert unsaid.validations["last"].to_list() == [1.0, 1.0]
    assert f"no best {name}: its name does not say whether lower or higher is better; " in unsaid.notes[-1]
    low = compare([a, b], metric=name, lower=[name], target={name: 0.5})
    assert low.validations["best"].to_list() == [0.0, 0.0]
    assert low.targets["step"].to_list() == [0, 0]


def test_smoothing_leaves_the_milestones_and_is_a_mean_of_the_last_steps(write: Write) -> None:
    zigzag = write("zigzag", range(1001), lambda step: 3 + step % 2)
    flat = write("flat", range(1001), lambda step: 3.5)
    raw, smoothed = compare([flat, zigzag]), compare([flat, zigzag], smooth=10)
    assert at_milestones(smoothed) == at_milestones(raw) == {0: [3.5, 3.0], 1000: [3.5, 3.0]}
    assert only(raw.equal, axis="step", run="zigzag")["value"] == 3.0
    assert only(smoothed.equal, axis="step", run="zigzag")["value"] == 3.5
    assert smoothed.curves.filter(run="zigzag")["smoothed"][-1] == 3.5
    assert smoothed.curves.filter(run="zigzag")["y"][-1] == 3.0


def test_smoothing_counts_steps_and_not_records(write: Write) -> None:
    every = write("every", range(1, 1001), lambda step: step / 100)
    tenth = write("tenth", range(10, 1001, 10), lambda step: step / 100)
    result = compare([every, tenth], smooth=100).equal.filter(axis="step")["value"].to_list()
    assert result == [pytest.approx(9.505), pytest.approx(9.55)]


def test_seeds_of_one_setting_become_a_mean_and_a_band(write: Write) -> None:
    def seed(name: str, depth: int, loss: float) -> Path:
        return write(name, range(1001), lambda step: loss, before=f"num_layers: {depth}\n")

    runs = [seed("a", 2, 3.0), seed("b", 2, 3.2), seed("c", 4, 2.0)]
    found = compare(runs, group="depth")
    assert found.runs == ["depth=2", "depth=4"]
    assert found.groups == {"a": "depth=2", "b": "depth=2", "c": "depth=4"}
    two = only(found.milestones, x=1000, run="depth=2")
    assert (two["value"], two["deviation"], two["runs"]) == (
        pytest.approx(3.1),
        pytest.approx(0.141421356),
        2,
    )
    four = only(found.milestones, x=1000, run="depth=4")
    assert (four["difference"], four["deviation"], four["runs"]) == (pytest.approx(-1.1), None, 1)
    band = found.common.filter(run="depth=2")
    assert band["deviation"].to_list() == pytest.approx([0.141421356] * band.height)
    assert found.settings.rows() == [("depth", "depth=2", "2"), ("depth", "depth=4", "4")]


def test_setting_that_a_run_does_not_say_cannot_group(write: Write) -> None:
    a, b = write("a", range(9), before="num_layers: 2\n"), write("b", range(9))
    with pytest.raises(GputelError, match="--group depth: b does not have it"):
        compare([a, b], group="depth")


def test_settings_that_could_group_runs_are_named(write: Write) -> None:
    a, b = write("a", range(9), before="num_layers: 2\n"), write("b", range(9), before="num_layers: 4\n")
    with pytest.raises(GputelError) as error:
        compare([a, b], group="seed")
    assert str(error.value).startswith("--group seed: a does not have it; group by ")
    assert "depth" in str(error.value)


def test_commands_are_shown_without_the_options_that_all_have() -> None:
    result = [
        "python train.py --depth 2 --steps 4 --out a",
        "python train.py --depth 4 --steps 4 --out b",
        None,
    ]
    assert without_shared(result) == ["… --depth 2 … --out a", "… --depth 4 … --out b", None]
    assert without_shared(["python a.py 1", "python a.py 2"]) == ["python a.py 1", "python a.py 2"]


def test_setting_of_several_lines_is_shown_on_one() -> None:
    assert shown("python -c import x\nprint(x)\n") == "python -c import x print(x)"
    assert shown(65536) == "65,536"


def test_only_settings_that_are_stated_differently_are_listed(write: Write) -> None:
    same = "num_heads: 4\n"
    a = write("a", range(9), before=f"{same}num_layers: 2\nmodel_dim: 64\n")
    b = write("b", range(9), before=f"{same}num_layers: 3\n")
    assert compare([a, b]).settings.rows() == [("depth", "a", "2"), ("depth", "b", "3")]


def test_runs_of_one_name_are_distinguished_by_their_folders(tmp_path: Path) -> None:
    for folder in ("x/lr1", "x/lr2"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "train.log").write_text("step 0 | loss: 1.0\nstep 1 | loss: 0.9\n")
    found = compare([tmp_path / "x/lr1/train.log", tmp_path / "x/lr2/train.log"])
    assert found.runs == ["lr1/train", "lr2/train"]
    twice = compare([tmp_path / "x/lr1/train.log"] * 2)
    assert twice.runs == ["train", "train (2)"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"by": "energy"}, "--by energy: a: no GPU was measured; compare by step"),
        (
            {"by": "tokens"},
            "--by tokens: a: it tells neither its tokens, nor its steps and their batch; compare by step",
        ),
        ({"by": "time"}, "--by time: a: it has no timestamps, no total time and no step times"),
        ({"by": "cost"}, "--by cost: no price was given; add --price 4 for a GPU hour, or --kwh 0.3"),
        ({"by": "cost", "price": 4.0}, "--by cost: a: it has no timestamps"),
        ({"by": "love"}, "by='love': is not an axis; one of step, tokens, time, flops, energy, cost"),
        ({"metric": "beauty"}, "--metric beauty: no run has it; they have loss"),
    ],
)
def test_comparison_that_lacks_a_figure_is_refused_with_its_reason(
    write: Write, asked: dict[str, object], message: str
) -> None:
    a, b = write("a", range(9)), write("b", range(9))
    with pytest.raises(GputelError) as error:
        compare([a, b], **asked)  # type: ignore[arg-type]
    assert str(error.value).startswith(message)


def measured(path: Path, watts: float, seconds: float) -> RunData:
    """The log beside two GPUs that drew as much from its first second on."""
    times = [START + timedelta(seconds=n / 10) for n in range(round(seconds * 10) + 20)]
    gpu = pl.DataFrame(
        {
            "time": pl.Series(times * 2, dtype=pl.Datetime("ns", "UTC")),
            "gpu": ["0"] * len(times) + ["1"] * len(times),
            "power_w": [watts / 2] * 2 * len(times),
            "mem_used_mib": [1000.0] * 2 * len(times),
        }
    ).sort("time", "gpu")
    return RunData(subject_of(path).log, readings=gpu)


@pytest.fixture
def stamped(tmp_path: Path) -> Callable[[str, float], Path]:
    """A log whose steps took so many seconds each by the stamps of its lines."""

    def stamped(name: str, each: float) -> Path:
        moments = [START + timedelta(seconds=each * (n + 1)) for n in range(100)]
        lines = [
            f"{moment.isoformat()} step {n} | loss: {falling(n)} | dt: {each * 1000}ms\n"
            for n, moment in enumerate(moments)
        ]
        path = tmp_path / f"{name}.log"
        path.write_text(BANNER.format(parameters=1000, batch=100) + "".join(lines))
        return path

    return stamped


def test_energy_is_an_axis_where_gpus_were_measured(stamped: Callable[[str, float], Path]) -> None:
    slow, fast = measured(stamped("slow", 2.0), 500, 200), measured(stamped("fast", 1.0), 1000, 100)
    found = compare([slow, fast], by="energy", kwh=0.36, target={"loss": falling(49)})
    result = found.summary
    assert result["energy_j"].to_list() == pytest.approx([100_000, 100_000])
    assert result["cost"].to_list() == pytest.approx([0.01, 0.01])
    assert result["j_per_token"].to_list() == pytest.approx([10, 10])
    assert result["power_mean_w"].to_list() == pytest.approx([500, 1000])
    assert result["mem_peak_mib"].to_list() == [2000, 2000]
    assert found.targets["energy_j"].to_list() == pytest.approx([50_000, 50_000])
    assert found.axes == ["step", "tokens", "time", "flops", "energy", "cost"]
    note = (
        "energy counts from the beginning of the first step, like time; J/token and W are of training alone"
    )
    assert note in found.notes
    assert found.milestones["difference"].drop_nulls().to_list() == pytest.approx([0] * 5, abs=1e-9)


def test_energy_of_half_a_run_is_not_taken_for_the_whole(stamped: Callable[[str, float], Path]) -> None:
    whole, half = measured(stamped("whole", 1.0), 500, 100), measured(stamped("half", 1.0), 500, 50)
    with pytest.raises(GputelError, match=r"half: its GPUs were measured for only 52 % of the time"):
        compare([whole, half], by="energy")
    assert compare([whole, half]).summary["energy_j"].to_list()[1] is None


def test_energy_across_a_gap_in_the_sampling_is_what_the_counter_grew_by(
    stamped: Callable[[str, float], Path],
) -> None:
    whole = measured(stamped("whole", 1.0), 500, 110)
    assert whole.readings is not None
    since_start = (pl.col("time") - pl.col("time").min()).over("gpu").dt.total_milliseconds() / 1000
    counted = whole.readings.with_columns(energy_j=since_start * pl.col("power_w"))
    silent = counted.filter(since_start.is_between(40, 70).not_())
    found = compare([replace(whole, readings=frame) for frame in (counted, silent)])
    assert found.summary["energy_j"][1] == pytest.approx(found.summary["energy_j"][0], rel=0.002)


def test_curves_hold_every_printed_point_and_common_one_axis(write: Write) -> None:
    a, b = write("a", range(301)), write("b", range(0, 201, 2))
    found = compare([a, b])
    assert found.curves.group_by("run", maintain_order=True).len().rows() == [("a", 301), ("b", 101)]
    assert found.common["x"].max() == 200
    assert max(map(abs, found.common.filter(run="b")["difference"].to_list())) < 0.002
    assert found.smoothing == 3


def test_front_door_takes_paths_logs_and_recordings(write: Write) -> None:
    path = write("a", range(9))
    found = gputel.compare([path, str(path), gputel.parse(path)])
    assert found.runs == ["a", "a (2)", "a (3)"]
    write("b", range(9))
    assert gputel.compare(path.parent).runs == ["a", "b"]


def test_notebook_shows_text_and_never_markup(write: Write) -> None:
    a, b = write("<script>alert(1)", range(9)), write("b", range(9))
    shown = gputel.compare([a, b])._repr_html_()
    assert "<script>" not in shown
    page = unescape(shown)
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert '<td class="number">9.0000</td>' in page
