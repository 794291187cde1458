"""From a text to its result: what is asked is parsed, found in what is remembered or planned, and run.

``scripts`` takes texts, ``statements`` runs one; ``planned``, ``direct``, ``inserting``, ``recipes`` and
``keyed`` run what came before without planning it again. ``outside`` and ``sources`` read files and frames
as tables, ``cursors`` and ``positioned`` are cursors.
"""
