"""docs/api.md is true in both directions: what it lists exists, and what is public is listed."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import gputel
from gputel.analysis import columns
from gputel.analysis.compare import Comparison
from gputel.analysis.compare.axes import AXES
from gputel.analysis.compare.gate import GateResult
from gputel.analysis.document import Document
from gputel.analysis.logs.log import Log
from gputel.analysis.plan import Plan, Target
from gputel.analysis.plan.estimate import Estimate
from gputel.analysis.plan.rows import Row
from gputel.analysis.render.notebook import Figures, PanelPicture
from gputel.analysis.runs.facts import Fact, Facts
from gputel.results import Compared, ParsedLog, Planned
from gputel.run import Run
from gputel.telemetry.host import seconds
from gputel.telemetry.host.columns import STORED
from gputel.telemetry.readings import READINGS
from gputel.telemetry.run_folder import create
from gputel.telemetry.store.tiers import Tier, TierColumn
from tests.recordings.printed import clock, fill, step

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "api.md").read_text()
D16, D24 = (ROOT / "sample_logs" / f"{name}-base.log.gz" for name in ("d16", "d24"))
CLASSES = (
    Run, ParsedLog, Compared, Planned, Row, Estimate, Target, GateResult, Facts, Fact, Figures, PanelPicture,
)  # fmt: skip
FRAMES = {"DataFrame", "LazyFrame"}
OTHERS = {"Any", "None", "Path", "Figure", "PlotlyFigure", "Status", "Literal", "Origin", "Verdict"}


def rows(heading: str) -> dict[str, str]:
    """The first column of the table under a heading, and the status beside it."""
    found = re.search(rf"^##+ {heading}\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"docs/api.md has no heading {heading}"
    return dict(re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", found[1], re.MULTILINE))


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """Public attributes with their type: fields, properties, and methods with their parameters."""
    known = {**vars(cls), **inspect.get_annotations(cls)}
    if cls is Figures:
        known |= {"page": "Document"}
    for name, value in known.items():
        if name.startswith("_"):
            continue
        value = getattr(value, "fget", None) or getattr(value, "func", None) or value
        kind = value if isinstance(value, str) else inspect.signature(value).return_annotation
        is_method = inspect.isfunction(vars(cls).get(name))
        words = ", ".join(list(inspect.signature(value).parameters)[1:]) if is_method else ""
        yield f"{name}({words})" if is_method else name, kind


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_attributes_of_a_class_are_those_on_the_page(cls: type) -> None:
    listed = rows(cls.__name__)
    assert sorted(listed) == sorted(name for name, _ in members(cls))
    assert set(listed.values()) <= {"stable", "provisional"}


@pytest.mark.parametrize(
    ("cls", "wrapped"),
    [(ParsedLog, Log), (Compared, Comparison), (Planned, Plan)],
    ids=lambda cls: cls.__name__,
)
def test_attribute_that_is_passed_on_has_the_type_and_name_of_the_wrapped_one(
    cls: type, wrapped: type
) -> None:
    types = dict(members(wrapped))
    own = {wrapped.__name__.lower(), "figures", "metrics()"}
    passed = {name: kind for name, kind in members(cls) if name not in own}
    assert passed
    assert passed == {name: types[name] for name in passed}
    for name in passed:
        path = repr(vars(cls)[name].fget)
        assert path == f"operator.attrgetter('{wrapped.__name__.lower()}.{name}')"


def test_functions_are_those_on_the_page_with_their_parameters() -> None:
    offered = {
        f"{name}({', '.join(inspect.signature(getattr(gputel, name)).parameters)})"
        for name in gputel.__all__
        if name != "__version__"
    }
    assert rows("Functions") == dict.fromkeys(offered, "stable")


def test_every_class_that_is_reached_is_on_the_page() -> None:
    """Those without a section of their own are named as internal, with the module that has them."""
    internal = rows("Internal classes")
    for name, module in internal.items():
        assert hasattr(import_module(module.strip("`")), name)
    reached = {
        word for cls in CLASSES for _, kind in members(cls) for word in re.findall(r"\b[A-Z]\w+", str(kind))
    }
    sections = {cls.__name__ for cls in CLASSES}
    assert reached - sections - FRAMES - OTHERS == set(internal)


@cache
def compared() -> tuple[Compared, ...]:
    asked: dict[str, Any] = {"price": 4.0, "target": {"loss": 2.9}}
    return gputel.compare([D16, D24], **asked), gputel.compare([D16, D16, D24], group="depth", **asked)


@pytest.mark.parametrize(
    "name", "milestones summary validations equal targets settings curves common frontier".split()
)
def test_frames_of_a_comparison_have_the_columns_on_the_page(name: str) -> None:
    made = {column for answer in compared() for column in getattr(answer, name).columns}
    if name == "curves":  # no sample log has a recording, so none has energy
        made |= {axis.column for axis in AXES.values()}
    assert set(rows(name)) == made


@pytest.mark.parametrize(
    ("name", "declared"),
    [
        ("steps", (*columns.STEPS, *columns.PLACE)),
        ("evals", columns.EVALS),
        ("events", columns.EVENTS),
        ("gpu", READINGS),
    ],
)
def test_declared_columns_are_those_on_the_page(name: str, declared: tuple[Any, ...]) -> None:
    keys = {"time", "gpu", "node"} if name == "gpu" else set()
    assert set(rows(name)) == keys | {column.name for column in declared}


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("host", "host"),
        ("cores", "core"),
        ("disks", "disk"),
        ("networks", "net"),
        ("cgroups", "cgroup"),
        ("processes", "process"),
    ],
)
def test_seconds_of_the_machine_have_the_columns_on_the_page(name: str, table: str) -> None:
    assert set(rows(name)) == {"node", *seconds.schema(table)}


def test_stored_columns_of_the_machine_are_those_of_the_run_folders_page() -> None:
    page = (ROOT / "docs" / "run-folder.md").read_text()
    for tiers in STORED.values():
        for tier, columns_of_tier in tiers.items():
            for column in columns_of_tier:
                assert f"| `{column.name}` | {tier} | {column.unit or ''} |" in page


def test_frames_of_a_log_have_only_columns_on_the_page() -> None:
    run = gputel.open_run(D16)
    for name in ("steps", "evals", "events"):
        assert set(getattr(run, name).columns) <= set(rows(name))
    assert set(run.per_step().columns) == set(rows("per_step"))


def test_frames_of_a_recording_have_the_columns_on_the_page(
    tmp_path: Path, compose: Callable[..., None]
) -> None:
    segment = create(tmp_path / "d12", {"run": "d12", "started": clock(0), "ended": clock(20)})
    fill(segment, [(n, step(n)) for n in range(20)])
    segment.gpu.rmdir()
    readings = [TierColumn(name, "", 1, "0") for name in ("power_w", "energy_j", "throttle")]
    compose(
        segment.gpu, [Tier("fast", 10.0, tuple(readings))], [(0, n * 10**8, [4, n, 0]) for n in range(99)]
    )
    run = gputel.open_run(tmp_path / "d12")
    assert set(run.segments.columns) == set(rows("segments"))
    assert {"power_w", "energy_j", "throttle"} <= set(run.gpu.columns) <= set(rows("gpu"))
    seconds = {column.replace("power_w_", "READING_") for column in run.gpu_1s.columns}
    assert seconds - {"energy_j_last", "throttle_last"} == set(rows("gpu_1s")) - {"node"}
    assert isinstance(run.scan(), pl.LazyFrame)


def test_figures_of_a_plan_are_those_on_the_page() -> None:
    plan = gputel.plan(depth=24, on="16xH100", nodes=2, link=1e9, price=4, data_tokens=1e10)
    assert list(rows("Figures of a row")) == list(plan.rows[0].figures)


def test_page_of_figures_is_a_document() -> None:
    assert Figures(Document("page", ())).page.title == "page"
