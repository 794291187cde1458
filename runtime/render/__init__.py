"""Rendering: builds operators for a physical plan and shares those that already exist.

Nodes that compute the same thing from the same inputs have the same *fingerprint*. The registry maps
fingerprints to live operators, so a new view builds only the operators that are missing.
"""

from kpg.runtime.render.build import Rendered, disconnect, render
from kpg.runtime.render.context import with_inputs

__all__ = ["Rendered", "disconnect", "render", "with_inputs"]
