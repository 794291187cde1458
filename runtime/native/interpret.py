"""Kernels interpreted by Python with the arithmetic of compiled code: slow, for tests and debugging.

Python's integers do not wrap around and numpy's do. So a kernel's file is read again with its integers
replaced by numpy's: literals, ``range`` and ``int``; casts such as ``np.uint64(x)`` keep the bits, as
compiled ones do. A remaining difference: an index out of bounds is an error here and undefined in compiled
code.
"""

import ast
import math
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np

from kpg.runtime.native.declare import Device, Intrinsic, Kernel
from kpg.runtime.native.signature import parse

CASTS: Final = ("int64", "uint64", "int32", "uint8", "uint16", "uint32", "float64")
LARGEST: Final = 2**63 - 1


def interpret_kernel(kernel: Kernel) -> Callable[..., Any]:
    """Return a function that runs the kernel's text as Python."""
    namespace = _namespace(Path(kernel.function.__code__.co_filename), kernel.function.__module__)
    function = namespace[kernel.__name__].function
    codes = parse(kernel.signature)

    def call(*arguments: Any) -> Any:
        given = [_argument(code, value) for code, value in zip(codes.codes, arguments, strict=True)]
        with np.errstate(all="ignore"):
            return _result(codes.result, function(*given))

    return call


def _argument(code: str, value: Any) -> Any:
    match code:
        case "i":
            return np.int64(value)
        case "u":
            return np.uint64(value)
        case "f":
            return np.float64(value)
        case "b":
            return bool(value)
        case _:
            return value


def _result(code: str, value: Any) -> Any:
    match code:
        case "v":
            return None
        case "f":
            return float(value)
        case "b":
            return bool(value)
        case _:
            return int(value)


@cache
def _namespace(path: Path, name: str) -> dict[str, Any]:
    """Return the names of a kernel file that was read with numpy's integers."""
    tree = _NumpyIntegers().visit(ast.parse(path.read_text(encoding="utf-8"), str(path)))
    module = ModuleType(name)
    namespace = vars(module)
    namespace.update(
        _int=_int, _range=_range, _ldexp=_ldexp, **{f"_{cast}": _make_cast(cast) for cast in CASTS}
    )
    exec(compile(ast.fix_missing_locations(tree), str(path), "exec"), namespace)
    for key, value in list(namespace.items()):
        if isinstance(value, Intrinsic):
            namespace[key] = value.plain
        elif isinstance(value, Device):
            function = value.function
            if function.__module__ != name:  # imported from another file, which is read again, too
                home = Path(function.__code__.co_filename)
                function = _namespace(home, function.__module__)[function.__name__]
            namespace[key] = function
    return namespace


class _NumpyIntegers(ast.NodeTransformer):
    """Replaces the integers within functions by numpy's."""

    def __init__(self) -> None:
        self._depth = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self._depth += 1
        node.body = [self.visit(statement) for statement in node.body]
        self._depth -= 1
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if self._depth and type(node.value) is int:
            return _call("_int64" if node.value <= LARGEST else "_uint64", [node])
        return node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        match node.func:
            case ast.Name(id="range" | "int" as name):
                return _call(f"_{name}", node.args)
            case ast.Attribute(value=ast.Name(id="np"), attr=attribute) if attribute in CASTS:
                return _call(f"_{attribute}", node.args)
            case ast.Attribute(value=ast.Name(id="math"), attr="ldexp"):
                return _call("_ldexp", node.args)
            case _:
                return node


def _call(name: str, arguments: list[ast.expr]) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), arguments, [])


def _make_cast(name: str) -> Callable[[Any], Any]:
    """Return a cast that keeps the low bits."""
    target = np.dtype(name)

    def cast(value: Any) -> Any:
        if type(value) is int:
            value = np.int64(value) if value <= LARGEST else np.uint64(value)
        return np.asarray(value).astype(target)[()]

    return cast


def _int(value: Any) -> Any:
    return value if isinstance(value, np.integer) else np.int64(int(value))


def _range(*bounds: Any) -> Iterator[Any]:
    return map(np.int64, range(*map(int, bounds)))


def _ldexp(value: Any, exponent: Any) -> Any:
    try:
        return np.float64(math.ldexp(value, int(exponent)))
    except OverflowError:  # C returns infinity
        return np.float64(math.copysign(math.inf, value))
