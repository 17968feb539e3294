"""GPUs on the screen: a row each, or one for each node of many."""

from dataclasses import replace

import pytest

from gputel.analysis.live.terminal.gpus import gpus
from gputel.analysis.live.terminal.snapshots import RunSnapshot
from gputel.analysis.live.view import GpuView
from tests.analysis.live.terminal.scenes import d16_view, h100, screen_text, snapshot_of


def test_temperature_near_its_limit_is_red() -> None:
    hot = replace(h100(0), last={**h100(0).last, "temp_c_max": 92.0})
    styles = [
        {str(span.style) for span in gpus([gpu], 80, 3)[1].spans if "red" in str(span.style)}
        for gpu in (h100(0), hot)
    ]
    assert styles == [set(), {"red"}]


def fleet(nodes: int) -> list[GpuView]:
    """Nodes of eight GPUs; power, temperature and memory tell them apart."""
    return [
        replace(
            h100(gpu),
            node=f"{node}",
            last={
                "power_w_mean": 600.0 + 10 * node,
                "temp_c_max": 50.0 + gpu,
                "util_mean": 90.0 + gpu,
                "mem_used_mib_max": 1024.0 * (10 * node + gpu),
            },
        )
        for node in range(nodes)
        for gpu in range(8)
    ]


def shown(views: list[GpuView], width: int, rows: int, **steps: int) -> list[str]:
    by_node = {name.removeprefix("n"): step for name, step in steps.items()}
    return [line.plain.rstrip() for line in gpus(views, width, rows, by_node)]


def test_gpus_of_all_nodes_have_a_row_each_where_they_fit() -> None:
    head, *rows = shown(fleet(2), 80, 17)
    assert head.split() == ["gpu", "power", "temp", "util", "memory"]
    assert [row.split()[0] for row in rows] == [f"{node}/{gpu}" for node in (0, 1) for gpu in range(8)]


def test_many_gpus_have_a_row_for_each_node_in_the_order_of_their_ranks() -> None:
    head, *rows = shown(fleet(12), 80, 20)
    assert head.split() == ["node", "mean", "power", "max", "temp", "mean", "util", "max", "memory"]
    assert [row.split()[0] for row in rows] == [f"{node}" for node in range(12)]
    for figure in ("710 W", "57 °C", "94 %", "117 GiB"):  # 93.5 of utilization
        assert figure in rows[11]


def test_nodes_end_with_their_step_and_the_gpu_that_draws_far_less() -> None:
    views = fleet(3)
    views[13] = replace(views[13], last=views[13].last | {"power_w_mean": 300.0})
    head, *rows = shown(views, 100, 10, n0=1200, n1=1200, n2=1188)
    assert head.split()[-2:] == ["step", "lowest"]
    assert [row.split("GiB")[1].split() for row in rows] == [
        ["1,200"],
        ["1,200", "5:", "300", "W"],
        ["1,188"],
    ]


def test_more_nodes_than_rows_stand_in_short() -> None:
    lines = shown(fleet(64), 80, 10)
    assert len(lines) == 10
    assert lines[0].startswith("0 600W 57°C 94% 7GiB · 1 610W")
    count = "".join(lines).count("°C")
    assert lines[-1].endswith(f"+{64 - count} nodes")


def test_second_that_no_gpu_of_a_node_has_is_a_gap_and_not_zero() -> None:
    nan = float("nan")
    views = [
        replace(view, strips={name: strip if len(strip) else [] for name, strip in view.strips.items()})
        for view in fleet(2)
    ]
    views[0] = replace(views[0], strips={"power_w_mean": [700.0, nan, 700.0]})
    views = [view if view.node == "1" or view.gpu == "0" else replace(view, strips={}) for view in views]
    row = shown(views, 80, 4)[1]
    assert "█ █" in row


@pytest.mark.parametrize(
    ("width", "height", "last"), [(80, 24, "15 750W"), (120, 40, "15 "), (200, 60, "15 ")]
)
def test_sixteen_nodes_and_the_loss_are_on_one_screen(width: int, height: int, last: str) -> None:
    view = d16_view(gpus=fleet(16), steps_of_nodes={f"{node}": 7000 + node for node in range(16)})
    text = screen_text(snapshot_of(RunSnapshot(view)), width=width, height=height)
    assert "● loss" in text
    assert last in text
    assert all(f"7,0{node:02}" in text for node in range(16) if width > 80)
