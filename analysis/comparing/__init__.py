"""Runs beside each other: subjects go in, tables of what they share and where they differ come out."""
