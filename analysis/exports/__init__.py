"""Results -> files for other programs: CSV, Parquet, JUnit."""
