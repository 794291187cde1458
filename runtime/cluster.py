"""What one of many workers knows of the others: whose a row is, what strings they know, when they meet.

Many workers behind one executor: a coordinator in the process of the database, and members anywhere.
"""
