"""Run folders in object storage: sent there, and brought back as folders that every reader opens."""
