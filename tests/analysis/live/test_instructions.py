"""Instructions of the guard on their way through a command line."""

import json
import subprocess
from pathlib import Path

from gputel.analysis.live.instructions import Instructions


def test_instructions_survive_the_command_line() -> None:
    instructions = Instructions("d16", "runs/d16", 7, 9, ["nan"], 3600.0, alarms={"nan": {"off": True}})
    assert Instructions(**json.loads(instructions.as_argv()[-1])) == instructions


def test_modules_in_the_users_folder_are_not_imported(tmp_path: Path) -> None:
    """The guard starts in the folder of the training, where a json.py may lie."""
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    python, option, code, _ = Instructions().as_argv()
    probe = code.replace("main(sys.argv[1])", "print(main.__module__)")
    command = [python, option, probe, "{}"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stdout == "gputel.analysis.live.guard\n"
