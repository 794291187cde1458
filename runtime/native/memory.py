"""Reading memory behind an address: as numba's intrinsics, and in plain Python for kernels not compiled."""

import ctypes
from typing import Any

import numpy as np


def make_load() -> Any:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def load(typing_context: Any, address: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
            return builder.load(builder.gep(pointer, [args[1]]))

        return types.int64(types.int64, types.int64), generate

    return load


def make_save() -> Any:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def save(typing_context: Any, address: Any, index: Any, word: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
            builder.store(args[2], builder.gep(pointer, [args[1]]))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), generate

    return save


def make_bit_count() -> Any:
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def bit_count(typing_context: Any, word: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.ctpop(args[0])

        return types.int64(types.int64), generate

    return bit_count


def make_lowest_bit() -> Any:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def lowest_bit(typing_context: Any, word: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

        return types.int64(types.int64), generate

    return lowest_bit


def make_invoke() -> Any:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def invoke(typing_context: Any, function: Any, slots: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            words = ir.IntType(64).as_pointer()
            kernel = builder.inttoptr(args[0], ir.FunctionType(ir.IntType(32), [words]).as_pointer())
            status = builder.call(kernel, [builder.inttoptr(args[1], words)])
            return builder.zext(status, ir.IntType(64))

        return types.int64(types.int64, types.int64), generate

    return invoke


def _make_pointer() -> Any:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def pointer(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

        return types.voidptr(types.int64), generate

    return pointer


def make_view() -> Any:
    import numba

    pointer = _make_pointer()

    def view(address: int, rows: int, columns: int) -> Any:
        return numba.carray(pointer(address), (rows, columns), np.int64)

    return numba.njit(view, nogil=True)


def make_small_view() -> Any:
    import numba

    pointer = _make_pointer()

    def view(address: int, length: int) -> Any:
        return numba.carray(pointer(address), (length,), np.int32)

    return numba.njit(view, nogil=True)


def plain_load(address: int, index: int) -> Any:
    return np.int64(ctypes.c_int64.from_address(int(address) + 8 * int(index)).value)


def plain_save(address: int, index: int, word: int) -> None:
    ctypes.c_int64.from_address(int(address) + 8 * int(index)).value = int(word)


def plain_invoke(function: int, slots: int) -> Any:
    return np.int64(ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(int(function))(int(slots)))


def plain_bit_count(word: int) -> Any:
    return np.int64((int(word) & (2**64 - 1)).bit_count())


def plain_lowest_bit(word: int) -> Any:
    return np.int64((int(word) & -int(word)).bit_length() - 1)


def plain_view(address: int, rows: int, columns: int) -> Any:
    return _array_at(address, ctypes.c_int64, int(rows) * int(columns)).reshape(int(rows), int(columns))


def plain_small_view(address: int, length: int) -> Any:
    return _array_at(address, ctypes.c_int32, int(length))


def _array_at(address: int, element: Any, count: int) -> Any:
    """Return the array at an address; that of an empty array may be invalid."""
    if count == 0:
        return np.zeros(0, element)
    return np.ctypeslib.as_array((element * count).from_address(int(address)))
