"""What the catalogs say of a number, by the number: a choice among what there is now."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sqlglot import exp

from kpg.compiler.keeping import noting, viewpoint
from kpg.compiler.sql.bind.calls import call, coerce
from kpg.compiler.sql.bind.scope import Binding
from kpg.runtime.scalar import Call, If, Literal, Scalar
from kpg.runtime.types import BIGINT, TEXT, Type

if TYPE_CHECKING:
    from kpg.runtime.scalar import Named

T = TypeVar("T", bound=Mapping[Any, str])
Known = Mapping[int, str] | Mapping[str, str]


def choice(binding: Binding, node: exp.Expr, number: Scalar, known: Iterable[tuple[int, str]]) -> Scalar:
    """The text of a number, NULL if it has none."""
    return chosen(binding, number, dict(known))


def kept_choice(
    binding: Binding, number: Scalar, key: Hashable, known: Callable[[], Iterable[tuple[int, str]]]
) -> Scalar:
    """As :func:`choice`, of what is the same until the catalog is another; by ``key``, whose it is."""
    return chosen(binding, number, kept_texts(binding, key, lambda: dict(known())))


def kept_texts(binding: Binding, key: Hashable, make: Callable[[], T]) -> T:
    """Texts that are the same until the catalog is another."""
    catalog = binding.catalog.told or binding.catalog
    whole = (key, viewpoint(catalog))
    found: T | None = catalog.consulted.kept.get(catalog, whole)
    if found is None:
        with noting(catalog) as told:
            found = make()
        catalog.consulted.kept.put(catalog, whole, found, told)
    return found


def chosen(binding: Binding, value: Scalar, known: Known) -> Scalar:
    """The text of a number, or of a text, NULL if it has none: looked up by a function of this plan's own.

    What is kept has to be made again when the database is opened, so it has no such function.
    """
    found: Mapping[Any, str] = known
    if isinstance(value, Literal):
        if value.value is None:
            return Literal(None, TEXT)
        return Literal(found.get(int(value.value) if value.type.is_numeric else value.value), TEXT)
    if not known:
        return Literal(None, TEXT)
    type_ = TEXT if value.type.is_text else BIGINT
    if binding.kept:
        return _searched(binding, coerce(value, type_), sorted(found.items()))
    return Call(_looked_up(binding, found, type_), (coerce(value, type_),), TEXT)


def _searched(binding: Binding, value: Scalar, known: Sequence[tuple[Any, str]]) -> Scalar:
    """As nested CASEs by halves, since what walks a scalar is recursive."""
    if not known:
        return Literal(None, TEXT)
    middle = len(known) // 2
    key, text = known[middle]
    at = Literal(key, value.type)
    below, above = (_searched(binding, value, part) for part in (known[:middle], known[middle + 1 :]))
    otherwise = below if below == above else If(_is(binding, "lt", value, at), below, above, TEXT)
    return If(_is(binding, "eq", value, at), Literal(text, TEXT), otherwise, TEXT)


def _is(binding: Binding, name: str, value: Scalar, key: Scalar) -> Scalar:
    return call(binding, name, [value, key], exp.Null())


def _looked_up(binding: Binding, known: Mapping[Any, str], type_: Type) -> "Named[Any]":
    from kpg.runtime.functions.user_functions import Declared, scalar_function

    consulted = binding.catalog.consulted
    consulted.times, consulted.steady = consulted.times + 1, consulted.steady + 1
    declared = Declared("looked up", consulted.times, (type_,), "what the catalogs say of it")
    return scalar_function(declared, known.get, TEXT, columns=False, nulls=False)
