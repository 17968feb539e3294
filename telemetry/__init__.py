"""Instruments: read the GPUs and keep a command's output, in a run folder."""

if __name__ != "gputel.telemetry":  # under its bare name every class would exist twice
    raise ImportError("this is a package of gputel: import gputel.telemetry, not telemetry")
