"""Files of a durable database: what is below tables and operators, and knows nothing of them."""
