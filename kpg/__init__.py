"""kpg: SQL views and Datalog programs kept up to date over one set of shared, multiversioned indexes.

The code lives in the top-level folders ``compiler/``, ``runtime/``, ``grammars/`` and ``tpch/``; this
package joins them under one import name through relative symlinks.
"""

from pathlib import Path as _Path

__version__ = "0.1.0"

_root = _Path(__file__).resolve().parents[1]
if (_root / "pyproject.toml").is_file() and not (_root / "kpg" / "compiler").is_dir():
    __path__.append(str(_root))  # a checkout made without symlinks
