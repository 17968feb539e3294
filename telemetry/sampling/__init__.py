"""The sampler's process: what is read how often, the loop that reads it, and what looks after the loop."""
