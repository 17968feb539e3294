"""Runs -> pages: which panels and tables of which runs are shown, and in what order."""
