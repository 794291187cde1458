"""The engine: what a database is, whoever asks it.

``engine`` is one class, made of ``schemas`` (what there is by name), ``following`` (views follow tables) and
``kept`` (in a folder). A ``table`` is the handle on rows in the executor; a ``transaction`` has its states,
the ``journal`` takes definitions back, ``past`` and ``clock`` know what was when, ``remembered`` is what is
known of statements that came before, and ``working`` what many workers need beside.
"""
