"""Map-filter-projects (MFPs) of plans, compiled to bytecode and run over batches of rows.

``bytecode`` lowers scalars to operations and assembles machine code, ``python_calls`` runs Python
functions with memo tables, and ``evaluation`` runs a compiled MFP and turns failed operations into
errors.
"""

from kpg.runtime.mfp.evaluation import CompiledMfp
from kpg.runtime.mfp.python_calls import Context

__all__ = ["CompiledMfp", "Context"]
