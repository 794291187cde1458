"""What one of many workers knows of the others: whose a row is, what strings they know, when they meet."""
