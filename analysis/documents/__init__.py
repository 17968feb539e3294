"""Results -> documents: one function per command."""
