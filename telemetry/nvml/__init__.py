"""NVIDIA's driver: the only modules that call NVML."""
