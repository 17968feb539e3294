"""Stacks of all ranks -> who holds up the others, and the incidents of a run folder.

places          where a process stands: its own line, the collective or the worker that it waits for
process_states  several looks at the same processes -> what each does, and whether it moves
verdict         who holds up the others, with evidence
text            the processes as text: groups of equal stacks
incident        incidents/<stamp>/ in the run folder, written once
hangs           what several nodes saw at one moment, judged together
instructions    what the watcher watches, and how long a silence it allows
watcher         the process beside a recording that looks when nothing is printed any more

It imports nothing heavy: the watcher lives beside a training.
"""
