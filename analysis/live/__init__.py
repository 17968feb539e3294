"""Follows runs as they happen: growing logs and recordings -> new rows -> the state of each run -> views.

    follower = Follower(["runs/d16", "train.log"])        # follower.py
    for updates in follower.updates(stop):                # [] if nothing is new; 1 to 40 times a second
        for update in updates: update.increment, update.gpu   # update.py: new rows of a log, seconds of GPUs
        for run in follower.runs: run.state.view(terms)   # view.py: plain values to draw
    follower.close()

`Increment.records`, `.evals`, `.partials` and `.events` are final rows with the columns of a parsed log;
`.open_records`, `.open_evals` and `.open_events` are rows that later lines may still change, replaced as a whole by
the next increment. If `.afresh` is true, drop all earlier rows of that stream: its format turned out to be another.
"""
