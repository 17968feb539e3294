"""Logs and run folders go in; tables, comparisons, pictures and alarms come out."""

if __name__ != "gputel.analysis":  # under its bare name every class would exist twice
    raise ImportError("this is a package of gputel: import gputel.analysis, not analysis")
