"""axe-core over an open page: which rules for people who see, hear or move otherwise it breaks.

GPUTEL_AXE names the script, which comes from npm and is not part of this repository.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.browser import Tab

RUN = """axe.run({resultTypes: ["violations"]}).then((found) => found.violations.map((rule) =>
    `${rule.id}: ${rule.nodes.map((node) => node.html.slice(0, 120)).join("; ")}`))"""


def violations(tab: Tab) -> list[str]:
    """Skips where there is no axe-core: `.ci/run` gets it from npm, and says so if it cannot."""
    script = os.environ.get("GPUTEL_AXE", "")
    if not Path(script).is_file():
        pytest.skip("GPUTEL_AXE names no axe.min.js of npm's axe-core")
    tab.evaluate(f"{Path(script).read_text()}; 0")
    return [str(rule) for rule in tab.evaluate(RUN)]
