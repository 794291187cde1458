"""Updates, batches and spines: collections as they vary with time. Knows no operators."""
