"""How kernels are declared, compiled ahead of time and loaded, without numba where machine code is there.

``declare`` has what kernel files use; ``load`` finds a kernel's machine code: in the wheel, in the cache of a
checkout, or by having it compiled (``workers``, ``emit``, ``link``); ``jit`` is the way without a C compiler.
"""
