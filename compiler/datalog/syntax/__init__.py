"""Texts of Datalog and their trees.

``preprocess`` (with ``macros`` and ``conditions``) pieces a ``source`` together, ``parse`` and ``build``
make the tree of ``ast``, in which ``components`` (by ``rename``) makes statements of their instances;
``flatten`` gives one rule for each head and alternative.
"""
