"""Alarm rules: observations of a run go in one by one, alarms that begin or end come out.

Pure: nothing here reads a clock, a file or a socket. `rules.toml` is the table of rules, each with its detector;
`watch.py` runs them all and raises each alarm once.
"""
