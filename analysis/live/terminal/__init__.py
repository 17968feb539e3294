"""The terminal view of `gputel tail`: what is known at a moment -> lines of text -> those that changed are drawn.

feed.py follows and makes pictures, screen.py lays a picture out, panes.py says what of a run, plots.py draws, and
app.py is the only file that knows textual.
"""
