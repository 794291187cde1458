"""Ego-centric aggregates: for each node of a graph, an aggregate over what its neighbours wrote.

An *overlay* (``overlay.py``) connects writers to readers through partial aggregates. ``construction.py``
finds shared inputs, ``decisions.py`` chooses between push and pull, ``partial_aggregates.py`` and
``families.py`` keep the state of each kind of aggregate, and ``overlay_engine.py`` maintains all of it under
changes.
"""
