"""The machine around the GPUs: a source a file of /proc or /sys, read as integers, null where unknown."""
