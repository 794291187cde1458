"""Data at rest and at the border: row stores, the text dictionary, conversion from and to Arrow."""
