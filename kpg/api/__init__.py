"""Client API: databases, branches, views, results, diagrams and progress bars."""
