"""What options mean: widths, and how pictures look."""

import re
import subprocess
from dataclasses import replace

import click
import pytest

from gputel.analysis.render.style import LOOKS, PictureLook
from gputel.cli import group, options
from gputel.telemetry import simulated
from gputel.telemetry.clock import SystemClock
from gputel.telemetry.errors import GputelError
from tests.command import gputel


@pytest.mark.parametrize(
    ("text", "width"), [("3.25in", 3.25), ("82.55mm", 3.25), ("8.255cm", 3.25), ("7", 7.0)]
)
def test_width_of_a_picture_in_inches(text: str, width: float) -> None:
    assert options.inches(text) == pytest.approx(width)


@pytest.mark.parametrize("text", ["0.5in", "wide", "3 feet", "100in"])
def test_width_that_no_picture_has_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match=re.escape("is not a width like 3.25in or 82mm")):
        options.inches(text)


@pytest.mark.parametrize(
    ("words", "look"),
    [
        ([], LOOKS["paper"]),
        (["--style", "slide"], LOOKS["slide"]),
        (["--style", "slide", "--font", "20"], replace(LOOKS["slide"], font=20.0)),
        (
            ["--panel", "loss, power", "--width", "5", "--dpi", "72"],
            PictureLook(width=5.0, dpi=72, panels=("loss", "power")),
        ),
    ],
)
def test_look_of_pictures_is_the_style_with_what_was_asked_besides(
    words: list[str], look: PictureLook
) -> None:
    looks: list[PictureLook] = []

    @click.command()
    @options.pages
    def draw(**_: object) -> None:
        looks.append(options.picture_look())

    draw.main(words, standalone_mode=False)
    assert looks == [look]


@pytest.mark.parametrize(
    ("text", "hours"), [("31h", 31), ("90min", 1.5), ("31", 31), ("0.5", 0.5), ("2d", 48)]
)
def test_time_limit_is_in_hours_unless_it_has_a_unit(text: str, hours: float) -> None:
    assert options.hours(text) == hours


@pytest.mark.parametrize("text", ["soon", "0", "-3", "nan", "1e9x"])
def test_time_limit_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a time like 31h, 90min or 31"):
        options.hours(text)


@pytest.mark.parametrize(("text", "dollars"), [("4", 4), ("$2.50", 2.5), ("1,200", 1200), ("0", 0)])
def test_price_is_in_dollars(text: str, dollars: float) -> None:
    assert options.dollars(text) == dollars


@pytest.mark.parametrize("command", ["record", "tail", "report", "compare", "plan"])
def test_price_and_budget_are_the_same_in_every_command(command: str) -> None:
    loaded = group.get_command(click.Context(group), command)
    assert loaded is not None
    money = {option.name: option for option in loaded.params if option.name in ("price", "budget")}
    assert {option.metavar for option in money.values()} == {"$"}
    assert money["price"].help == "Dollars per GPU hour."
    with pytest.raises(click.BadParameter) as fault:
        loaded.make_context(command, ["--price", "abc"])
    assert "'--price': 'abc' is not a number of dollars like 4 or 2.50" in fault.value.format_message()


def test_target_that_is_a_number_is_of_the_loss() -> None:
    assert options.target("2.9") == options.target("loss=2.9") == ("loss", 2.9)
    with pytest.raises(click.BadParameter, match=re.escape("'low' is not a target like loss=2.9")):
        options.target("low")


def plan(*words: str) -> subprocess.CompletedProcess[str]:
    return gputel("plan", "--depth", "16", *words)


def test_gpus_may_stand_before_their_number() -> None:
    assert plan("--on", "H100x2", "--json").stdout == plan("--on", "2xH100", "--json").stdout


def test_misspelled_gpu_is_asked_back() -> None:
    answer = plan("--on", "2xH10")
    assert answer.returncode == 2
    assert answer.stderr == "error: --on 2xH10: no such GPU in the table; did you mean 2xH100?\n"


@pytest.mark.parametrize(
    ("words", "hint"), [("2xH10", "did you mean 2xH100?"), ("0xH100", "name one of H100")]
)
def test_misspelled_gpu_to_simulate_is_asked_back(words: str, hint: str) -> None:
    with pytest.raises(GputelError, match=re.escape(hint)):
        simulated.open_machine(words, SystemClock())


def test_simulated_gpus_may_stand_before_their_number() -> None:
    assert len(simulated.open_machine("H100x2,A100", SystemClock()).gpus) == 3
