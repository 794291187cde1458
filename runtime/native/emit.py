"""Kernels to object code: numba infers and lowers, LLVM optimises once, for the processor that is asked for.

Runs in processes that do nothing else (``__main__``, ``ship``): numba's own code generation, which would
compile each device function for this machine before anything calls it, is switched off for the whole process.

An object has one symbol: ``int32 kpg_NAME(int64 *slots)`` reads the arguments from ``slots`` (see
``signature.py``), calls the kernel and puts its result into ``slots[0]``; other than 0 is an exception, whose
numba description is then at the address in ``slots[0]``.

Arrays of the caller come without an owner, so that counting references to them is counting on a null
pointer, which LLVM takes away when the counting is inlined; only arrays that a kernel allocates are counted.
"""

import gc
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils, codegen, sigutils, types
from numba.core.compiler import Flags, compile_extra
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

from kpg.runtime.native.declare import Kernel, build_devices

_WORD = ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()

_REFERENCES = """
declare noalias i8* @malloc(i64)
declare void @free(i8*)

define internal i8* @kpg_allocate(i64 %size, i64 %align) alwaysinline {
  %header = add i64 %align, 48
  %whole = add i64 %size, %header
  %memory = call i8* @malloc(i64 %whole)
  %none = icmp eq i8* %memory, null
  br i1 %none, label %fail, label %fill
fill:
  %words = bitcast i8* %memory to i64*
  store i64 1, i64* %words
  %start = ptrtoint i8* %memory to i64
  %past = add i64 %start, %header
  %over = urem i64 %past, %align
  %data = sub i64 %past, %over
  %place = getelementptr i64, i64* %words, i64 3
  store i64 %data, i64* %place
  ret i8* %memory
fail:
  ret i8* null
}
define i8* @NRT_MemInfo_alloc_safe_aligned(i64 %size, i32 %align) alwaysinline {
  %wide = zext i32 %align to i64
  %memory = call i8* @kpg_allocate(i64 %size, i64 %wide)
  ret i8* %memory
}
define i8* @NRT_MemInfo_alloc_aligned(i64 %size, i32 %align) alwaysinline {
  %wide = zext i32 %align to i64
  %memory = call i8* @kpg_allocate(i64 %size, i64 %wide)
  ret i8* %memory
}
define i8* @NRT_MemInfo_data_fast(i8* %memory) alwaysinline {
  %words = bitcast i8* %memory to i8**
  %place = getelementptr i8*, i8** %words, i64 3
  %data = load i8*, i8** %place
  ret i8* %data
}
define void @NRT_incref(i8* %memory) alwaysinline {
  %none = icmp eq i8* %memory, null
  br i1 %none, label %done, label %count
count:
  %words = bitcast i8* %memory to i64*
  %old = load i64, i64* %words
  %new = add i64 %old, 1
  store i64 %new, i64* %words
  br label %done
done:
  ret void
}
define void @NRT_decref(i8* %memory) alwaysinline {
  %none = icmp eq i8* %memory, null
  br i1 %none, label %done, label %count
count:
  %words = bitcast i8* %memory to i64*
  %old = load i64, i64* %words
  %new = sub i64 %old, 1
  store i64 %new, i64* %words
  %last = icmp eq i64 %new, 0
  br i1 %last, label %give, label %done
give:
  call void @free(i8* %memory)
  br label %done
done:
  ret void
}
"""
"""Reference counting for the arrays that numba's code allocates.

An allocation has a count, two unused words, the data's address, two unused words, and the data. A kernel's
arrays do not leave its thread, so counting need not be atomic.
"""

_COUNTING = """
declare void @NRT_incref(i8*)
declare void @NRT_decref(i8*)
declare i8* @NRT_MemInfo_data_fast(i8*)
"""


def prepare() -> None:
    """Disable numba's own code generation in this process, permanently."""
    cpu_target.typing_context.refresh()
    context = cpu_target.target_context
    context.refresh()
    rtsys.initialize(context)

    def nothing(*args: Any, **named: Any) -> None:
        return None

    def layout_only(library: Any, module: Any) -> None:
        module.data_layout = library._codegen._data_layout

    codegen.CPUCodeLibrary._optimize_functions = layout_only
    codegen.CPUCodeLibrary._optimize_final_module = nothing
    codegen.JITCodeLibrary._finalize_specific = nothing
    codegen.JITCodeLibrary.get_pointer_to_function = lambda library, name: 1
    codegen.JITCPUCodegen._add_module = nothing
    codegen.JITCPUCodegen.set_env = nothing
    rtsys._library = _ReferenceDeclarations(rtsys.library)
    gc.freeze()
    gc.disable()  # a compiler makes millions of objects and the process is short-lived


class _ReferenceDeclarations:
    """Replaces numba's reference counting library by declarations, so that ours is linked."""

    def __init__(self, library: Any) -> None:
        self._reload_init: set[str] = set()
        self._module = llvm.parse_assembly(_COUNTING)
        self._module.triple = library._final_module.triple
        self._module.data_layout = library._codegen._data_layout

    def _ensure_finalized(self) -> None:
        """Do nothing, in place of numba's method."""

    def _get_module_for_linking(self) -> Any:
        return self._module


def emit(kernel: Kernel, processors: Sequence[str]) -> list[bytes]:
    """Return a kernel's object code for each of LLVM's processor names; call ``prepare`` before.

    Raises numba's errors if the kernel cannot be typed.
    """
    module = _lower(kernel)
    return [_generate(module.clone(), processor, kernel.symbol) for processor in processors]


def _lower(kernel: Kernel) -> Any:
    """Return the kernel, its callees and its wrapper as one unoptimized LLVM module."""
    build_devices(kernel.function.__globals__)
    arguments, result = sigutils.normalize_signature(kernel.signature)
    flags = Flags()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.nrt = flags.release_gil = True
    context = cpu_target.target_context
    compiled = compile_extra(
        cpu_target.typing_context, context, kernel.function, arguments, result, flags, locals={}
    )
    with global_compiler_lock:
        compiled.library._ensure_finalized()
    module = compiled.library._final_module.clone()
    wrapper = llvm.parse_assembly(str(_wrapper(context, compiled.fndesc, kernel.symbol)))
    wrapper.data_layout = module.data_layout
    module.link_in(wrapper)
    return module


def _wrapper(context: Any, described: Any, symbol: str) -> ir.Module:
    """Return the function ``symbol``, which passes slots as arguments in numba's calling convention."""
    module = context.create_module("wrapper")
    slots_type = _WORD.as_pointer()
    function = ir.Function(module, ir.FunctionType(ir.IntType(32), [slots_type]), name=symbol)
    builder = ir.IRBuilder(function.append_basic_block())
    slots = function.args[0]
    at = 0

    def word() -> Any:
        nonlocal at
        at += 1
        return builder.load(builder.gep(slots, [ir.Constant(_WORD, at - 1)]))

    arguments = [_argument(context, builder, kind, word) for kind in described.argtypes]
    callee = ir.Function(
        module, context.call_conv.get_function_type(described.restype, described.argtypes),
        name=described.llvm_func_name,
    )  # fmt: skip
    status, result = context.call_conv.call_function(
        builder, callee, described.restype, described.argtypes, arguments
    )
    first = builder.gep(slots, [ir.Constant(_WORD, 0)])
    with builder.if_else(status.is_error) as (failed, done):
        with failed:
            builder.store(builder.ptrtoint(status.excinfoptr, _WORD), first)
        with done:
            if described.restype == types.float64:
                builder.store(builder.bitcast(result, _WORD), first)
            elif described.restype == types.boolean:
                builder.store(builder.zext(result, _WORD), first)
            elif described.restype != types.none:
                builder.store(result, first)
    # numba's status is an error, except "returned None"
    builder.ret(builder.zext(status.is_error, ir.IntType(32)))
    return module


def _argument(context: Any, builder: Any, kind: Any, word: Callable[[], Any]) -> Any:
    """Return one argument from its slots: an array is an address and its shape, a scalar one word."""
    if not isinstance(kind, types.Array):
        if kind == types.float64:
            return builder.bitcast(word(), ir.DoubleType())
        if kind == types.boolean:
            return builder.icmp_signed("!=", word(), ir.Constant(_WORD, 0))
        return word()
    array = context.make_array(kind)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    itemsize = ir.Constant(_WORD, size)
    data = builder.inttoptr(word(), array.data.type)
    shape = [word() for _ in range(kind.ndim)]
    strides, count = [itemsize], shape[-1]
    for length in reversed(shape[:-1]):
        strides.insert(0, builder.mul(shape[-1], itemsize))
        count = builder.mul(count, length)
    array.data = data
    array.shape = cgutils.pack_array(builder, shape)
    array.strides = cgutils.pack_array(builder, strides)
    array.nitems = count
    array.itemsize = itemsize
    array.meminfo = ir.Constant(array.meminfo.type, None)
    array.parent = ir.Constant(array.parent.type, None)
    return array._getvalue()


def _generate(module: Any, processor: str, symbol: str) -> bytes:
    """Optimize ``module`` for a processor and return its object code."""
    generator = codegen.AOTCPUCodegen("kpg", processor)
    _internalize_except(module, {symbol})
    for function in module.functions:
        if not function.is_declaration:
            passes, builder = generator._function_pass_manager()
            passes.run(function, builder)
    passes, builder = generator._module_pass_manager(
        loop_vectorize=False, slp_vectorize=False, opt=0, cost="cheap"
    )
    passes.run(module, builder)  # inlines small calls, so that reference counts cancel out
    references = llvm.parse_assembly(_REFERENCES)
    references.data_layout, references.triple = module.data_layout, module.triple
    module.link_in(references)
    _internalize_except(module, {symbol})
    passes, builder = generator._module_pass_manager()
    passes.run(module, builder)
    module.verify()
    code: bytes = generator._tm.emit_object(module)
    return code


def _internalize_except(module: Any, symbols: set[str]) -> None:
    """Make all symbols but ``symbols`` private to the object."""
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name not in symbols and not value.name.startswith("llvm."):
            value.linkage = "internal"
