"""What options mean: widths, and how pictures look."""

import re

import click
import pytest

from gputel.analysis.render.style import LOOKS, PictureLook
from gputel.cli import options


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
        (["--style", "slide", "--font", "20"], PictureLook(width=8.0, font=20.0, dpi=150)),
        (
            ["--panel", "loss, power", "--width", "5", "--dpi", "72"],
            PictureLook(5.0, 7.5, 72, ("loss", "power")),
        ),
    ],
)
def test_look_of_pictures_is_the_style_with_what_was_asked_besides(
    words: list[str], look: PictureLook
) -> None:
    looks: list[PictureLook] = []

    @click.command()
    @options.options
    def draw(**_: object) -> None:
        looks.append(options.picture_look())

    draw.main(words, standalone_mode=False)
    assert looks == [look]
