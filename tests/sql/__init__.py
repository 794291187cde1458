"""SQL behaviour as data: files of statements and their answers."""
