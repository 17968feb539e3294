"""A header with a step and the lines below it are one record."""

from __future__ import annotations

from gputel.analysis.logs.infer import blocks, candidates, shapes


def found(log: str) -> tuple[list[candidates.Candidate], list[bytes]]:
    lines = log.encode().split(b"\n")
    bare = shapes.strip_prefixes(lines)
    made = (candidates.make_candidate(shape, bare) for shape in shapes.line_shapes(lines, bare))
    return [candidate for candidate in made if candidate], lines


LOG = "".join(
    f"-- STEP: {i} --\n  | > loss_0: {9 / i:.3f}\n  | > loss_1: {8 / i:.3f}\n\n"
    f"> EVALUATION\n  | > avg_loss_0: 0.{i}\n"
    for i in range(1, 6)
)


def test_header_is_the_line_above_that_says_the_step() -> None:
    made, lines = found(LOG)
    main = next(line for line in made if "loss_0" in line.columns)
    header = blocks.header_above(made, main, lines)
    assert header is not None
    assert header.columns == ["step"]
    body = blocks.members(made, header, lines)
    assert [line.columns for line in body] == [["loss_0"], ["loss_1"]]


def test_lines_that_are_neither_indented_nor_bulleted_have_no_header() -> None:
    made, lines = found(
        "".join(f"at step {i}\nloss_0: {9 / i:.3f}\nloss_1: {8 / i:.3f}\n" for i in range(1, 6))
    )
    main = next(line for line in made if "loss_0" in line.columns)
    assert blocks.header_above(made, main, lines) is None
