"""Draws docs/recording.svg, the README's picture, from a recording that it makes: python docs/picture.py"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

DOCS = Path(__file__).resolve().parent
COMMAND = "gputel record --simulate 2xH100 --out runs/tiny -- python docs/tiny_training.py"
LAST = 6

with tempfile.TemporaryDirectory() as folder:
    (Path(folder) / "docs").symlink_to(DOCS)
    answer = subprocess.run(
        [sys.executable, "-m", *COMMAND.replace("-- python", f"-- {sys.executable}").split()],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
console = Console(record=True, width=130, file=open("/dev/null", "w"), force_terminal=True)  # noqa: SIM115, PTH123
console.print(Text("$ ") + Text(COMMAND, style="bold"))
for line in answer.stdout.splitlines()[-LAST:]:
    console.print(Text(line, style="dim"))
for line in answer.stderr.splitlines():
    console.print(Text(line, style="yellow" if line.startswith("SIMULATED") else "default"))
picture = console.export_svg(title="gputel record")
offline = re.sub(
    r"@font-face \{.*?\}\n", "", picture, flags=re.DOTALL
)  # rich would fetch its font from a host
(DOCS / "recording.svg").write_text(offline)
