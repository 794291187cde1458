"""Updates, batches and traces: collections that vary with time. Knows no operators."""
