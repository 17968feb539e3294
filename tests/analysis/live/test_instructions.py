"""Instructions of the guard on their way through a command line."""

import json

from gputel.analysis.live.instructions import Instructions


def test_instructions_survive_the_command_line() -> None:
    instructions = Instructions("d16", "runs/d16", 7, 9, ["nan"], 3600.0, alarms={"nan": {"off": True}})
    assert Instructions(**json.loads(instructions.as_argv()[-1])) == instructions
