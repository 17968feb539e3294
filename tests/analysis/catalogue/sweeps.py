"""Folders of recordings that hold a description and facts.json alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gputel.analysis.catalogue import facts, facts_file


def recorded(folder: Path, settings: dict[str, Any], *, report: bool = False, **figures: Any) -> Path:
    """A recording with the facts, settings and maybe a report."""
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}\n")
    row = facts.row({"kept_by": "recording", "status": "completed", **figures}, settings, {})
    files = facts_file.sizes(folder)
    document = {"facts_version": facts.FACTS_VERSION, "files": files, **row.as_json()}
    (folder / facts_file.NAME).write_text(json.dumps(document))
    if report:
        (folder / "gputel-report.html").write_text("<title>a report</title>")
    return folder
