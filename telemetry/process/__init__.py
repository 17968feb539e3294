"""The processes around a command: a viewer owns the terminal, a keeper writes the output, signals pass through."""
