"""The terminal view of `gputel tail`: snapshots -> lines of text -> the lines that changed are drawn.

`snapshots.py` follows runs and takes snapshots, `screen.py` lays them out, `panes.py` has the parts of one run,
`plots.py` draws curves, and `app.py` is the only file that uses textual.
"""
