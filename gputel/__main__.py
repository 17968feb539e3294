"""`python -m gputel` is `gputel`."""

from gputel.cli import main

main()
