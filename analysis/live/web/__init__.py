"""Runs as they happen, on a page in the browser: views -> parts -> messages -> viewers.

page = Page(door.opened("127.0.0.1", 8765), wake=follower.wake)    # server.py: serves until it is closed
for turn in session.turns(stop):
    page.show(session.views)                                       # nothing is computed while nobody looks
page.close()
"""
