"""Check the imports of the product: no cycles, and a reason for each import inside a function.

Every import counts: at the top of a module, inside a function, and for types only. An import inside a
function carries ``# lazy: <reason>`` on its line or on the line above. Reasons are an optional package, and
what the start does without. A ``LazyModule`` is imported for types, by the same name. A text
``"module:function"``, as in the registry of statements, is an import too. The core does without the extension
that comes with it, so only the server imports that.
"""

import ast
import re
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = ("compiler", "grammars", "kpg", "runtime", "tpch")
EXTENSION: Final = "kpg.postgres"
ABOVE_EXTENSION: Final = ("kpg.postgres", "kpg.server")
"""The extension that comes with kpg, and what may import it."""
REFERENCE: Final = re.compile(r"[\w.]+:\w+")


def module_name(path: Path) -> str:
    """The name under which a file is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    whole = parts if parts[0] == "kpg" else ("kpg", *parts)
    return ".".join(whole[:-1] if whole[-1] == "__init__" else whole)


def imports_of(tree: ast.AST, inside: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """The import statements of a tree, and whether each is inside a function."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, inside
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from imports_of(child, inside or is_function)


def targets(statement: ast.Import | ast.ImportFrom, known: set[str]) -> Iterator[str]:
    """The modules of the product that a statement imports."""
    for alias in statement.names:
        if isinstance(statement, ast.Import):
            candidates = [alias.name]
        else:
            candidates = [f"{statement.module}.{alias.name}", statement.module or ""]
        yield from [one for one in candidates if one in known][:1]


def unlike(tree: ast.AST) -> Iterator[int]:
    """The lines where a name is a ``LazyModule`` that the types have as another module."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.If):
            continue
        imported = {}
        for one in node.body:
            if isinstance(one, ast.Import | ast.ImportFrom):
                package = f"{one.module}." if isinstance(one, ast.ImportFrom) else ""
                imported |= {alias.asname or alias.name: f"{package}{alias.name}" for alias in one.names}
        for one in node.orelse:
            match one:
                case ast.Assign([ast.Name(name)], ast.Call(ast.Name("LazyModule"), [ast.Constant(module)])):
                    if imported.get(name) != module:
                        yield one.lineno


def references(tree: ast.AST, known: set[str]) -> Iterator[str]:
    """The modules of the texts ``"module:function"``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and REFERENCE.fullmatch(node.value):
            yield from {node.value.partition(":")[0]} & known


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    paths = {module_name(path): path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))}
    known, wrong = set(paths), 0
    graph: dict[str, set[str]] = {}
    for name, path in paths.items():
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        tree = ast.parse(text)
        graph[name] = set(references(tree, known)) - {name}
        for line in unlike(tree):
            print(f"{path.relative_to(ROOT)}:{line}: a lazy module is not what TYPE_CHECKING imports")
            wrong += 1
        for statement, inside in imports_of(tree):
            found = set(targets(statement, known)) - {name}
            graph[name] |= found
            near = "\n".join(lines[max(0, statement.lineno - 2) : statement.end_lineno])
            if inside and found and "# lazy:" not in near:
                print(
                    f"{path.relative_to(ROOT)}:{statement.lineno}: import inside a function without a reason"
                )
                wrong += 1
    for name, found in graph.items():
        if not name.startswith(ABOVE_EXTENSION):
            for one in sorted(one for one in found if one.startswith(EXTENSION)):
                print(f"{name} imports {one}: the core must not import the extension that comes with it")
                wrong += 1
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        print("cycle of imports: " + " <- ".join(error.args[1]))
        wrong += 1
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
