"""The compact reference DDP trainer; it imports nothing of the other rooms."""

if __name__ != "gputel.trainer":  # under its bare name every class would exist twice
    raise ImportError("this is a room of gputel: import gputel.trainer, not trainer")
