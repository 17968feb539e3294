"""The logs that the project made: what it composed can be composed again, and each gives what it must give."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.xdist_group("sample_logs")  # they are parsed once, for all that is asked of them
ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "sample_logs"
EXPECTED: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("sample_logs.toml").read_text())

COMPOSED = {name for name, log in EXPECTED.items() if not log.get("printed")}


@cache
def parsed() -> dict[str, dict[str, Any]]:
    command = [sys.executable, "-m", "gputel", "parse", "sample_logs/", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    return {Path(run["source"]).name: run for run in json.loads(done.stdout)["runs"]}


def unpacked(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def phases() -> list[tuple[str, int]]:
    return [(name, at) for name, log in EXPECTED.items() for at in range(len(log["phases"]))]


def phase_of(name: str, at: int) -> tuple[dict[str, Any], dict[str, Any]]:
    return parsed()[name]["phases"][at], EXPECTED[name]["phases"][at]


def test_composing_again_gives_the_same_bytes(tmp_path: Path) -> None:
    """Compared unpacked: two versions of zlib may pack the same bytes in two ways."""
    script = Path(__file__).with_name("compose_sample_logs.py")
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True)
    assert {path.name for path in tmp_path.iterdir()} == COMPOSED
    for path in tmp_path.iterdir():
        assert unpacked(path) == unpacked(FOLDER / path.name), path.name


def test_folder_holds_logs_only_and_those_that_were_composed_say_so() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(EXPECTED)
    firsts = {path.name: unpacked(path).split(b"\n")[0] for path in FOLDER.iterdir()}
    assert {name for name, first in firsts.items() if b"COMPOSED" in first} == COMPOSED


def test_every_log_is_a_run_and_a_composed_one_says_so() -> None:
    assert set(parsed()) == set(EXPECTED)
    assert {name for name, run in parsed().items() if "composed" in run["config"]} == COMPOSED


@pytest.mark.parametrize("name", EXPECTED)
def test_run_has_its_format_status_config_and_events(name: str) -> None:
    run, expected = parsed()[name], EXPECTED[name]
    for key in expected.keys() & {"format", "status", "rejects"}:
        assert run[key] == expected[key], key
    for table in ("config", "summary", "events"):
        wanted = expected.get(table, {})
        assert {key: run[table].get(key) for key in wanted} == wanted
    assert len(run["phases"]) == len(expected["phases"])


@pytest.mark.parametrize(("name", "at"), phases())
def test_phase_has_its_records_and_steps(name: str, at: int) -> None:
    phase, expected = phase_of(name, at)
    assert phase["records"] == expected["records"]
    assert phase["steps"] == expected.get("distinct", expected["records"])
    assert [phase["first_step"], phase["last_step"]] == expected.get("steps", [None, None])
    for key in expected.keys() & {"phase", "attempt", "total_steps"}:
        assert phase[key] == expected[key], key


@pytest.mark.parametrize(("name", "at"), phases())
def test_phase_has_its_figures(name: str, at: int) -> None:
    phase, expected = phase_of(name, at)
    for table in ("metrics", "evals"):
        for column, (count, first, last) in expected.get(table, {}).items():
            figures = phase[table][column]
            nan = expected.get("nan", {}).get(column, 0)
            assert [figures["count"], figures["nan"]] == [count, nan], column
            assert [figures["first"], figures["last"]] == [first, last], column
    for column, mean in expected.get("means", {}).items():
        digits = len(str(mean).partition(".")[2])
        assert round(phase["metrics"][column]["mean"], digits) == mean


@pytest.mark.parametrize("name", ["d16-base.log.gz", "d24-base.log.gz"])
def test_losses_at_the_published_steps_come_from_real_rows(name: str) -> None:
    import gputel

    steps = gputel.parse(FOLDER / name).steps
    loss = dict(steps.select("step", "loss").iter_rows())
    for step, expected in EXPECTED[name]["phases"][0]["at"]["loss"].items():
        assert round(loss[int(step)], 6 if step == "12000" else 4) == expected
