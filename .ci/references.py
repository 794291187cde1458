"""Check that the references in docstrings and comments resolve.

A reference is a role, such as ``:func:`` before a name, or a dotted name in double backticks. Its first part
is a name of the class around it, of its module, of its folder, or a module of the product. A dotted name that
starts otherwise, such as a column in SQL, is no reference. Attributes of variables are not checked.
"""

import ast
import builtins
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = ("compiler", "grammars", "kpg", "runtime", "tpch")
REFERENCE: Final = re.compile(
    r":(?:attr|class|const|data|exc|func|meth|mod|obj):`~?(?P<role>[\w.]+)`"
    r"|``(?P<dotted>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\([^`]*\))?``"
)
BUILTINS: Final = frozenset(dir(builtins))
FILE: Final = re.compile(r"\.(csv|json|py|sh|sql|toml)$")


class Class(NamedTuple):
    """A class: its own names, and its bases as they are written."""

    module: str
    names: frozenset[str]
    bases: list[str]


class Module(NamedTuple):
    """A module: its own names, its imports by name, its classes, and all variables of its functions."""

    name: str
    is_package: bool
    names: frozenset[str]
    imports: dict[str, str]
    classes: dict[str, Class]
    variables: frozenset[str]


def module_name(path: Path) -> str:
    """The name under which a file is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    whole = parts if parts[0] == "kpg" else ("kpg", *parts)
    return ".".join(whole[:-1] if whole[-1] == "__init__" else whole)


def bound(body: list[ast.stmt]) -> Iterator[str]:
    """The names that statements bind, but for imports."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
            continue
        for part in ("body", "orelse", "finalbody"):
            yield from bound(getattr(node, part, []))
        for handler in getattr(node, "handlers", []):
            yield from bound(handler.body)
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                yield one.id


def read_class(node: ast.ClassDef, module: str) -> Class:
    """The names of a class: of its body, and attributes that its methods set on ``self``."""
    own = {
        one.attr
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)
    }
    return Class(
        module,
        frozenset({*bound(node.body), *own}),
        [ast.unparse(base).partition("[")[0] for base in node.bases],
    )


def read_module(path: Path, tree: ast.Module) -> Module:
    """Index the names of a module."""
    name = module_name(path)
    imports: dict[str, str] = {}
    classes: dict[str, Class] = {}
    variables = set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                for alias in node.names:
                    first = alias.name.partition(".")[0]
                    imports[alias.asname or first] = alias.name if alias.asname else first
            case ast.ImportFrom():
                imports |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            case ast.ClassDef():
                classes[node.name] = read_class(node, name)
            case ast.arg():
                variables.add(node.arg)
            case ast.Name(id, ast.Store()):
                variables.add(id)
    return Module(
        name, path.stem == "__init__", frozenset(bound(tree.body)), imports, classes, frozenset(variables)
    )


def texts(tree: ast.Module, source: str) -> Iterator[tuple[int, str, Class | None]]:
    """The docstrings and comments of a module: line, text, and the class around a docstring."""

    def docstrings(node: ast.AST, around: str | None) -> Iterator[tuple[int, str, str | None]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                if isinstance(child.value.value, str):
                    yield child.lineno, child.value.value, around
            else:
                yield from docstrings(child, child.name if isinstance(child, ast.ClassDef) else around)

    yield from docstrings(tree, None)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string, None


class Product:
    """Resolves names in the modules of the product."""

    def __init__(self, modules: dict[str, Module]) -> None:
        self._modules = modules
        self._basenames: dict[str, list[str]] = {}
        for name in modules:
            self._basenames.setdefault(name.rpartition(".")[2], []).append(name)

    def has(self, path: str, rest: list[str]) -> bool:
        """Whether a dotted path, and names in it, exist. Those of other packages do."""
        if not path.startswith("kpg.") and path != "kpg":
            return True
        if (module := self._modules.get(path)) is not None:
            if not rest or f"{path}.{rest[0]}" in self._modules:
                return not rest or self.has(f"{path}.{rest[0]}", rest[1:])
            return self.defines(module, rest)
        above, _, last = path.rpartition(".")
        return above != "" and self.has(above, [last, *rest])

    def defines(self, module: Module, names: list[str]) -> bool:
        """Whether a module has a name, which has the next name."""
        first, *rest = names
        if (cls := module.classes.get(first)) is not None:
            return not rest or self.has_member(cls, rest[0])
        if first in module.imports:
            return self.has(module.imports[first], rest)
        return first in module.names

    def has_member(self, cls: Class, name: str) -> bool:
        """Whether a class or one of its bases has a name. Bases of other packages have every name."""
        if name in cls.names:
            return True
        module = self._modules[cls.module]
        for base in cls.bases:
            first, *rest = base.split(".")
            found = module.classes.get(first) or self._class(module.imports.get(first, ""), rest)
            if found is not None and found is not cls and self.has_member(found, name):
                return True
        return False

    def _class(self, path: str, rest: list[str]) -> Class | None:
        whole = ".".join([path, *rest])
        above, _, last = whole.rpartition(".")
        if (module := self._modules.get(above)) is None:
            return None
        return module.classes.get(last) or self._class(module.imports.get(last, ""), [])

    def resolves(self, module: Module, around: str | None, names: list[str], is_role: bool) -> bool:
        """Whether a reference in a module resolves, or is none."""
        first, *rest = names
        if around is not None and self.has_member(module.classes[around], first):
            return True
        if first in module.classes or first in module.imports:
            return self.defines(module, names)
        if first in module.names or first in module.variables or first in BUILTINS or first == "kpg":
            return first != "kpg" or self.has("kpg", rest)
        folder = module.name if module.is_package else module.name.rpartition(".")[0]
        if f"{folder}.{first}" in self._modules and self.has(f"{folder}.{first}", rest):
            return True
        if rest and first in self._basenames:
            return any(self.has(name, rest) for name in self._basenames[first])
        if rest and first[0].isupper():
            return any(self.defines(one, names) for one in self._modules.values())
        return not is_role


def main() -> int:
    """Print the references that do not resolve; 1 if there are any."""
    wrong = 0
    sources = {
        path: path.read_text(encoding="utf-8")
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
    }
    trees = {path: ast.parse(source) for path, source in sources.items()}
    modules = {module_name(path): read_module(path, tree) for path, tree in trees.items()}
    product = Product(modules)
    for path, tree in trees.items():
        module = modules[module_name(path)]
        for line, text, around in texts(tree, sources[path]):
            for found in REFERENCE.finditer(text):
                reference = found["role"] or found["dotted"]
                if found["dotted"] and FILE.search(reference):
                    continue
                if not product.resolves(module, around, reference.split("."), found["role"] is not None):
                    at = line + text.count("\n", 0, found.start())
                    print(f"{path.relative_to(ROOT)}:{at}: `{reference}` does not resolve")
                    wrong += 1
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
