"""Ego-centric aggregates: for each node of a graph an aggregate over what its neighbours wrote.

An *overlay* (``overlay.py``) leads from writers through partial aggregates to readers; ``building.py`` finds
what readers have in common, ``deciding.py`` what is kept up to date and what is computed when it is read,
and a *family* (``sums.py``, ``extremes.py``, ``counts.py``, ``states.py``) has the partial aggregates of one
kind. ``engine.py`` keeps all of it right while nodes, edges and values come and go.
"""
