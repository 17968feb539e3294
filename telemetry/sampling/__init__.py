"""The sampling process: its plan of rates, the loop that reads, the budget and the watchdog."""
