"""Where the package says something: for tests that a fact has one home."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("telemetry", "analysis", "trainer", "gputel")


def homes(text: str) -> set[str]:
    """The files in which this text stands."""
    files = {path.resolve() for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    return {path.relative_to(ROOT).as_posix() for path in files if text in path.read_text()}
