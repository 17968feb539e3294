"""Frames and descriptions -> bytes of files that people open."""
