"""Functions of dates, times, timestamps and intervals."""
