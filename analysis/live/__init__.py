"""Runs as they happen, from outside: bytes that grow -> rows that are new -> what is known at a moment -> views.

    follower = Follower(["runs/d16", "train.log"])        # follow.py; commands=[commands.split("rank0=...")]
    for updates in follower.updates(stop):                # [] at least once a second, at most 40 times a second
        for one in updates: one.increment, one.gpu        # parse/increments.py: rows that are new; gpu: seconds
        for run in follower.runs: run.state.view(terms)   # state.py: a View, plain values to draw
    follower.close()

`Increment.records`, `.evals`, `.partials`, `.events` are rows that are final, with the columns of a parsed log;
`.open_records`, `.open_evals`, `.open_events` are what the log says beyond them if it ended now, superseded as a
whole by the next increment. Where `.afresh` is true, what came before of that stream is to be forgotten.
`state.changed` counts what came in, so that a view knows whether there is anything to draw.
"""
