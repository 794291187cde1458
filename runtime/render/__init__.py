"""Rendering: a physical plan becomes operators, those that exist already being shared.

Two nodes that compute the same thing from the same inputs have the same *fingerprint*; the registry
maps fingerprints to the live operators, so that a new view builds only what nobody has built before it.
"""

from kpg.runtime.render.existing import with_inputs
from kpg.runtime.render.level import Rendered, disconnect, render

__all__ = ["Rendered", "disconnect", "render", "with_inputs"]
