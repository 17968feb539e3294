"""The compact reference DDP trainer; it imports nothing of the other packages."""

if __name__ != "gputel.trainer":  # under its bare name every class would exist twice
    raise ImportError("this is a package of gputel: import gputel.trainer, not trainer")
