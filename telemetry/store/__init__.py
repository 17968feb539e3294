"""The gpu/ folder: the sampler's ticks are written so that they survive a crash, and read back as frames."""
