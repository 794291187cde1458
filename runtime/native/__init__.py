"""How kernels are declared, compiled ahead of time and loaded, without numba if machine code exists.

``declare`` has the decorators of kernel files. ``load`` finds a kernel's machine code: in the wheel, in the
cache of a checkout, or by compiling it (``workers``, ``emit``, ``link``). ``jit`` is used without a C
compiler.
"""
