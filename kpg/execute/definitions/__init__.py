"""Data definition: CREATE, ALTER and DROP of every kind of object."""
