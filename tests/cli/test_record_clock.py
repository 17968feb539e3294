"""`gputel record` while the machine's clock is set: a library in front of the C library plays that."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gputel.analysis.runs import read_run
from gputel.telemetry import events
from gputel.telemetry.clock import SECOND

NEAR = 600 * SECOND
CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

int clock_gettime(clockid_t id, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    static volatile long *set_by;
    if (!real) {
        real = dlsym(RTLD_NEXT, "clock_gettime");
        set_by = mmap(0, 4096, PROT_READ, MAP_SHARED, open(getenv("SET_BY"), O_RDONLY), 0);
    }
    int status = real(id, time);
    if (id == CLOCK_REALTIME) time->tv_sec += *set_by;
    return status;
}
"""
TRAINING = """
import os, struct, sys, time
import gputel
for step in range(30):
    time.sleep(0.05)
    if step == 15:
        with open(os.environ["SET_BY"], "r+b") as file:
            file.write(struct.pack("<q", int(sys.argv[1])))
    gputel.log(step=step, given=step)
    print(f"step {step} | loss {9 - step / 10:.3f}", flush=True)
"""


@pytest.mark.long
@pytest.mark.parametrize(("set_by", "way"), [(-3600, "back"), (3600, "forward")])
def test_lines_and_samples_stay_on_one_clock_when_the_machines_is_set(
    tmp_path: Path, set_by: int, way: str
) -> None:
    compiler = next(c for c in ("cc", "gcc", "clang") if shutil.which(c))
    library = tmp_path / "clock.so"
    flags = ["-shared", "-fPIC", "-x", "c", "-", "-o", str(library), "-ldl"]
    subprocess.run([compiler, *flags], input=CLOCK, text=True, check=True)
    (tmp_path / "set_by").write_bytes(bytes(4096))
    env = {**os.environ, "LD_PRELOAD": str(library), "SET_BY": str(tmp_path / "set_by")}
    words = ["record", "--simulate", "1xH100", "--out", "run", "--", sys.executable, "-c", TRAINING]
    done = subprocess.run(
        [sys.executable, "-m", "gputel", *words, str(set_by)],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    run = read_run(tmp_path / "run")
    assert run.recording is not None
    assert run.log.started is not None
    for name, times in {
        "lines": run.log.records["time"],
        "ticks": run.recording.gpu["time"],
        "seconds": run.recording.gpu_1s["time"],
    }.items():
        moments = times.dt.epoch("ns")
        assert moments.is_sorted(), name
        assert (moments - run.log.started).abs().max() < NEAR, name
    (event,) = (each for each in events.read(tmp_path / "run") if each["kind"] == "clock")
    assert f"was set {way} by 3,600.0 s" in event["text"]
