"""Rendering: builds operators for a physical plan and shares existing ones.

Nodes that compute the same result from the same inputs have the same *fingerprint*. The registry
maps fingerprints to live operators, so a new view builds only the missing operators.
"""

from kpg.runtime.render.build import RenderResult, disconnect, render
from kpg.runtime.render.context import with_inputs

__all__ = ["RenderResult", "disconnect", "render", "with_inputs"]
