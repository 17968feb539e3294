"""Ticks go in, a gpu/ folder comes out that survives crashes; and frames are read from it again."""
