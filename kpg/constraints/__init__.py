"""What rows of a table have to be, and values that a statement does not give.

``guard`` holds rows to CHECKs and computes columns, ``references`` and ``links`` are foreign keys,
``violations`` is what an error tells of the rule; ``filling``, ``sequences`` and ``numbering`` give values.
"""
