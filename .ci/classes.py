"""Check that composition divides classes: no class with state is more than two deep.

The depth of a class counts it and its base classes of the product, as far as they have state: fields, or
attributes that a method sets. Interfaces have none. Exceptions, and frozen records (nodes of trees and
plans), may be deeper.
"""

import ast
import sys
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = ("compiler", "kpg", "runtime", "tpch")
MAX_DEPTH: Final = 2
EXCEPTIONS: Final = ("BaseException", "Exception", "Warning")


class Module(NamedTuple):
    """A module: the objects that it imports by their names in it, and its classes."""

    imported: dict[str, str]
    classes: dict[str, ast.ClassDef]


MODULES: Final[dict[str, Module]] = {}
"""The modules of the product by the names under which they are imported."""


def add_module(path: str, text: str) -> None:
    """Add a module with that path and text."""
    parts = Path(path).with_suffix("").parts
    name = ".".join(parts if parts[0] == "kpg" else ("kpg", *parts)).removesuffix(".__init__")
    imported, classes = {}, {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            imported |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
        elif isinstance(node, ast.Import):
            imported |= {one.asname: one.name for one in node.names if one.asname is not None}
        elif isinstance(node, ast.ClassDef):
            classes[node.name] = node
    MODULES[name] = Module(imported, classes)


def find_class(name: str) -> str | None:
    """Return the qualified name of a class, by which a module may import it from another one."""
    module, _, own = name.rpartition(".")
    if module not in MODULES:
        return None
    if own in MODULES[module].classes:
        return name
    return find_class(MODULES[module].imported[own]) if own in MODULES[module].imported else None


def bases_of(name: str) -> list[str]:
    """Return the base classes of the product."""
    module, _, own = name.rpartition(".")
    found = []
    for base in MODULES[module].classes[own].bases:
        text = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
        first, _, rest = text.partition(".")
        where = MODULES[module].imported.get(first, f"{module}.{first}")
        qualified = find_class(f"{where}.{rest}" if rest else where)
        found += [qualified] if qualified is not None and qualified != name else []
    return found


def class_of(name: str) -> ast.ClassDef:
    """Return the definition of a class."""
    module, _, own = name.rpartition(".")
    return MODULES[module].classes[own]


def is_exempt(name: str) -> bool:
    """Return whether a class is an exception or a frozen record."""
    definition = class_of(name)
    if any("frozen=True" in ast.unparse(one) for one in definition.decorator_list):
        return True
    bases = [ast.unparse(one) for one in definition.bases]
    return any(one.endswith(("Error", *EXCEPTIONS)) for one in bases) or any(map(is_exempt, bases_of(name)))


def has_state(name: str) -> bool:
    """Return whether a class has fields, or sets attributes of its instances."""
    definition = class_of(name)
    is_record = any("dataclass" in ast.unparse(one) for one in definition.decorator_list)
    if is_record and any(isinstance(one, ast.AnnAssign) for one in definition.body):
        return True
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
        for node in ast.walk(definition)
    )


@cache
def depth_of(name: str) -> int:
    """Return the length of the longest chain of classes with state, from this class up."""
    return has_state(name) + max(map(depth_of, bases_of(name)), default=0)


def errors() -> list[str]:
    """Return the classes that are too deep."""
    names = [f"{module}.{own}" for module, one in MODULES.items() for own in one.classes]
    return [
        f"{name}: {depth_of(name)} classes deep; own what it inherits"
        for name in names
        if not is_exempt(name) and depth_of(name) > MAX_DEPTH
    ]


def main() -> int:
    """Print the violations; return 1 if there are any."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            add_module(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
    violations = errors()
    print("\n".join(violations), end="\n" if violations else "")
    return int(bool(violations))


if __name__ == "__main__":
    sys.exit(main())
