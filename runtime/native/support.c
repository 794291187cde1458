/* What numba's code calls besides the C library: its own helpers, written anew, so that kernels need no numba. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN void *
NRT_Allocate(size_t size)
{
    return malloc(size);
}

HIDDEN void
NRT_Free(void *memory)
{
    free(memory);
}

/* An owner of memory: a count, two unused words, the address of the data. See emit.py. */
HIDDEN void *
NRT_MemInfo_alloc(size_t size)
{
    int64_t *words = malloc(48 + size);
    if (words == NULL)
        return NULL;
    words[0] = 1;
    words[3] = (int64_t)(intptr_t)(words + 6);
    return words;
}

HIDDEN double
numba_ldexp(double value, int exponent)
{
    return ldexp(value, exponent);
}

/* The strides of a reshaped array without a copy: 1 if there are such. Kernels reshape contiguous arrays only. */
HIDDEN int
numba_attempt_nocopy_reshape(intptr_t old_count, const intptr_t *old_shape, const intptr_t *old_strides,
                             intptr_t count, const intptr_t *shape, intptr_t *strides, intptr_t itemsize,
                             int fortran)
{
    intptr_t expected = itemsize;
    if (fortran)
        return 0;
    for (intptr_t i = old_count - 1; i >= 0; i--) {
        if (old_shape[i] != 1 && old_strides[i] != expected)
            return 0;
        expected *= old_shape[i];
    }
    expected = itemsize;
    for (intptr_t i = count - 1; i >= 0; i--) {
        strides[i] = expected;
        expected *= shape[i];
    }
    return 1;
}
