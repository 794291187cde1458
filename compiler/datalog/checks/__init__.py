"""What is checked of a whole program: stratification, monotone recursion, depth."""
