"""What is wrong with a run, as it happens: moments go in one after the other, onsets and recoveries come out.

Pure: nothing here reads a clock, a file or a socket. `rules.toml` is the table of rules, each naming a detector;
`watch.py` feeds them all and says nothing twice. Whoever follows a run makes the moments and sends the alarms.
"""
