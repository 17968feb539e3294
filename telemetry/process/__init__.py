"""The processes around a command: who owns the terminal, who keeps the output, who passes on a signal."""
