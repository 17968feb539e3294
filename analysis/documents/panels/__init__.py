"""Panels of documents: curves, heat maps and bars."""
