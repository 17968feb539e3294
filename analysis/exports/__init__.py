"""Results -> files for other programs: CSV, Parquet, JUnit; curves for TensorBoard, W&B and MLflow."""
