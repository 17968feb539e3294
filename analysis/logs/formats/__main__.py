"""Generates formats.json from the TOML files beside it: `python -m gputel.analysis.logs.formats`."""

from __future__ import annotations

from gputel.analysis.logs import formats

if __name__ == "__main__":
    formats.GENERATED.write_text(formats.generate())
