"""Bytes of any log go in, in any pieces; rows of steps, evaluations and events come out."""
