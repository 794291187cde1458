"""Many workers behind one executor: a coordinator in the process of the database, and members anywhere."""
