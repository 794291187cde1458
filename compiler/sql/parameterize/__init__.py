"""Query normalization: statements with their constants taken out, as keys of the plan cache."""
