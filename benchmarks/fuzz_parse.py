"""Random bytes, made by atheris, against both engines: no exception, no hang, the same rows.

atheris is no dependency: `pip install atheris`, then `python benchmarks/fuzz_parse.py -max_total_time=60`. What it
finds is kept as `crash-*` in the working folder.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[1] / "sample_logs"


def rows(data: bytes, fast: bool) -> list[object]:
    from gputel.analysis.logs import regex_engine, result, summary
    from gputel.analysis.logs.parser import make_parser, read

    parser = make_parser()
    parser.engine = read if fast else regex_engine.read
    parser.feed(data)
    parser.finish()
    log = result.conclude(parser, "noise", "noise.log")
    return [*summary.rows(log), *((reject.line, reject.reason) for reject in log.rejects)]


def one(data: bytes) -> None:
    """Repeated, so that there are lines enough for the fast engine to learn their shapes."""
    whole = (data + b"\n") * 3
    whole += b"." * (4096 - len(whole))
    assert repr(rows(whole, fast=True)) == repr(rows(whole, fast=False))


def main() -> None:
    try:
        import atheris
    except ImportError:
        print("atheris is not installed: nothing was fuzzed")
        return
    with atheris.instrument_imports(include=["gputel"]):
        rows(b"step 1: loss 2.5", fast=True)
    with tempfile.TemporaryDirectory() as found:  # the first folder is the one that libFuzzer writes to
        atheris.Setup([*sys.argv, found, str(SAMPLES)], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
