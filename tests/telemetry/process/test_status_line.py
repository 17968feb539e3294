"""The status line says what was measured, and fits the terminal."""

from gputel.telemetry.process.status_line import status_line

NEWS: dict[str, object] = {
    "simulated": "2xH100",
    "hz": 99.96,
    "bytes": 1_500_000,
    "gpus": [
        {
            "gpu": "0",
            "power_w": 412.3,
            "temp_c": 61,
            "util": 98,
            "mem_used_mib": 41_984,
            "mem_total_mib": 81_920,
        },
        {
            "gpu": "1",
            "power_w": None,
            "temp_c": 60,
            "util": None,
            "mem_used_mib": None,
            "mem_total_mib": None,
        },
    ],
}


def test_status_line_says_what_was_measured_and_nothing_else() -> None:
    line = status_line(NEWS, 3725, 500_000, width=200, color=False)
    assert line == (
        "SIMULATED 01:02:05 | GPU 0 412 W 61 °C 98 % 41.0/80 GiB | GPU 1 60 °C | 100.0 Hz | 2.0 MB"
    )
    assert status_line(None, 1, 0, width=80, color=True) == "00:00:01 | 0.0 MB"


def test_status_line_fits_the_terminal() -> None:
    assert len(status_line(NEWS, 3725, 0, width=40, color=False)) == 39
    assert status_line(NEWS, 0, 0, width=40, color=True).startswith("\x1b[33mSIMULATED \x1b[0m")
