"""Dataclasses that generate their methods on first use, for fast startup.

The standard library compiles up to six methods for each class at declaration. kpg declares hundreds
of classes, of which a small program uses a part. Importing ``kpg.api.database`` compiles 2,548
functions with it and 542 with this module, and takes a fifth longer. Here ``__init__`` is compiled for
the first instance, and the other methods are not compiled at all. The behaviour is that of
``dataclasses``, which finds the fields and creates the slots; type checkers see its ``dataclass``.
"""

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

Function = Callable[..., Any]


def _dataclass(cls: type | None = None, /, **options: Any) -> Any:
    """Make a dataclass, with eq, frozen, kw_only, repr, slots and weakref_slot, but without order.

    InitVar and a field named ``self`` are not supported. All classes of a frozen hierarchy must use
    this decorator, since ``dataclasses`` does not see ``frozen``.
    """
    return (
        _make_dataclass(cls, **options)
        if cls is not None
        else lambda given: _make_dataclass(given, **options)
    )


def _make_dataclass(
    cls: type, *, eq: bool = True, frozen: bool = False, repr: bool = True, slots: bool = False, **rest: bool
) -> Any:
    if not cls.__doc__:
        cls.__doc__ = cls.__name__  # otherwise dataclasses computes the signature, which takes longest
    defined_names = set(cls.__dict__)
    if "__eq__" in defined_names and cls.__dict__["__hash__"] is None:
        defined_names.remove("__hash__")  # set by Python, not by the class
    result: Any = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots, **rest)
    fields = dataclasses.fields(result)
    functions: dict[str, Function | None] = {"__init__": _first_init(result, frozen)}
    if repr:
        shown = [field for field in fields if field.repr]
        is_hashed = frozen and eq and all(field.compare for field in shown)
        functions["__repr__"] = _make_repr([field.name for field in shown], may_contain_itself=not is_hashed)
    if eq:
        functions["__eq__"] = _make_eq(_values_getter([field.name for field in fields if field.compare]))
        hashing = [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
        functions["__hash__"] = _make_hash(_values_getter(hashing)) if frozen else None
    if frozen:
        functions |= _frozen_methods(result, frozenset(field.name for field in fields))
        if slots:
            functions |= {"__getstate__": _get_state, "__setstate__": _set_state}
    for name, function in functions.items():
        if name not in defined_names:
            setattr(result, name, function)
    return result


def _first_init(cls: Any, frozen: bool) -> Function:
    """Return an ``__init__`` that replaces itself by the compiled one."""

    def __init__(self: Any, *args: Any, **named: Any) -> None:
        compiled = _compile_init(cls, frozen)
        if cls.__dict__.get("__init__") is __init__:
            cls.__init__ = compiled
        compiled(self, *args, **named)

    return __init__


def _compile_init(cls: Any, frozen: bool) -> Function:
    """Return the ``__init__`` that ``dataclasses`` would generate."""
    names: dict[str, Any] = {"_absent": dataclasses.MISSING, "_set": object.__setattr__}
    positional, by_name, body = ["self"], list[str](), list[str]()
    for field in dataclasses.fields(cls):
        name, value, default = field.name, field.name, ""
        if field.default_factory is not dataclasses.MISSING:
            names[f"_factory_{name}"] = field.default_factory
            default = "=_absent"
            value = f"_factory_{name}()" + (f" if {name} is _absent else {name}" if field.init else "")
        elif field.default is not dataclasses.MISSING:
            names[f"_default_{name}"] = field.default
            default = f"=_default_{name}"
            value = name if field.init else f"_default_{name}"
        elif not field.init:
            continue
        if field.init:
            (by_name if field.kw_only else positional).append(name + default)
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    arguments = ", ".join((*positional, *(("*", *by_name) if by_name else ())))
    exec(f"def __init__({arguments}):\n " + "\n ".join(body or ["pass"]), names)
    init: Function = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _values_getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function from an instance to the tuple of its values."""
    match names:
        case []:
            return lambda one: ()
        case [name]:
            get = attrgetter(name)
            return lambda one: (get(one),)
        case _:
            return attrgetter(*names)


def _make_repr(names: list[str], *, may_contain_itself: bool) -> Function:
    def __repr__(self: Any) -> str:
        values = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{self.__class__.__qualname__}({values})"

    # A record that contained itself in what it hashes would have no hash.
    return recursive_repr()(__repr__) if may_contain_itself else __repr__


def _make_eq(values: Callable[[Any], tuple[Any, ...]]) -> Function:
    def __eq__(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _make_hash(values: Callable[[Any], tuple[Any, ...]]) -> Function:
    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _frozen_methods(cls: Any, names: frozenset[str]) -> dict[str, Function]:
    """Return methods that refuse to set and delete attributes."""

    def __setattr__(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _get_state(self: Any) -> list[Any]:
    """Return the pickled state of a frozen instance with slots."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _dataclass
