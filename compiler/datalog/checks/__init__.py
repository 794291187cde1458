"""What is checked of a whole program: stratification, monotone recursion, depth, the user's join orders."""
