"""What programs call: databases, views, results, branches, pictures and progress."""
