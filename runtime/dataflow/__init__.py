"""What operators share: their place in the dataflow, and the step they take part in."""
