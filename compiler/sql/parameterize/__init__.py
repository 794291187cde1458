"""Query normalization: the keys of the plan cache, with lists of values in the place of constants."""
