"""Programs: map-filter-projects compiled to machine code and run over batches of rows.

``lower`` turns scalars into operations, ``assemble`` those into code, ``segment`` runs code with the
tables and ``memo`` tables that it reads, ``program`` adds what a row's errors mean, ``errors`` says which.
"""

from kpg.runtime.program.memo import Context
from kpg.runtime.program.program import Program

__all__ = ["Context", "Program"]
