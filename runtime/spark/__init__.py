"""Bulk loads through Spark, workers as Spark tasks, and views as Spark data frames."""
