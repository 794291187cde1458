"""Window functions over partitions: the operator, its partition index, frames and evaluation."""
