"""axe-core over an open page: which rules for people who see, hear or move otherwise it breaks.

GPUTEL_AXE names the script, which comes from npm and is not part of this repository.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.browser import Tab
from tests.conftest import lack

RUN = """axe.run().then((found) => found.violations.map((rule) =>
    `${rule.id}: ${rule.nodes.map((node) => node.html.slice(0, 120)).join("; ")}`))"""


def violations(tab: Tab) -> list[str]:
    """Skips where there is no axe-core, and fails in CI."""
    script = os.environ.get("GPUTEL_AXE", "")
    if not Path(script).is_file():
        lack("GPUTEL_AXE names no axe.min.js of npm's axe-core")
    tab.evaluate(f"{Path(script).read_text()}; 0")
    return [str(rule) for rule in tab.evaluate(RUN)]
