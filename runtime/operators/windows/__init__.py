"""``plan.Window``: what window functions say of rows, over whole partitions and over parts of them."""
