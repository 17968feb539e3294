"""Instruments: GPUs and a command's output go in, a run folder comes out."""

if __name__ != "gputel.telemetry":  # under its bare name every class would exist twice
    raise ImportError("this is a room of gputel: import gputel.telemetry, not telemetry")
