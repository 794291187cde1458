"""Map-filter-projects of plans, compiled to bytecode and run over batches of rows.

``lower`` turns scalars into operations, ``assemble`` those into code, ``segment`` runs code with the
tables and ``memo`` tables that it reads, ``compiled`` adds what a row's errors mean, ``errors`` says which.
"""

from kpg.runtime.mfp.evaluation import CompiledMfp
from kpg.runtime.mfp.python_calls import Context

__all__ = ["CompiledMfp", "Context"]
