"""The edge to the driver: the only modules that know NVML."""
