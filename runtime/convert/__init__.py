"""Values to words and back: Python values, Arrow, files, and words that other engines made."""
