/* Calls of compiled kernels: a Python object that checks and unpacks its arguments and calls a C function.
 *
 * open(path)                                  -> handle of a shared library
 * function(handle, symbol, name, signature)   -> callable; the signature is that of signature.py
 * CLOCK                                       -> address of a function that writes nanoseconds to its slot
 * RECEIVE, SEND                               -> addresses of functions of a socket, an address and a length:
 *                                                the bytes that came or went at once, or an error's number below 0
 * level()                                     -> 1 to 3: the x86-64 level of this processor, 0 for another one
 *
 * A kernel knows no Python object, so the interpreter is let go while it runs.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <stdint.h>
#include <string.h>
#include <time.h>

#define MOST_ARGUMENTS 40
#define MOST_SLOTS (3 * MOST_ARGUMENTS)

typedef int32_t (*kernel_t)(int64_t *);

typedef struct {
    char kind;       /* of a scalar: i u f b; of an array's elements: i u f b */
    char dimensions; /* 0 for a scalar */
    char size;       /* of an element, bytes */
    char written;
} argument_t;

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    kernel_t kernel;
    PyObject *name;
    char result;
    int count;
    argument_t arguments[MOST_ARGUMENTS];
} Function;

/* What numba says of an exception: a pickle of (class, arguments, place). */
typedef struct {
    const char *data;
    int32_t length;
} excinfo_t;

static PyObject *
raise_from(Function *self, int64_t address)
{
    const excinfo_t *info = (const excinfo_t *)(intptr_t)address;
    if (info == NULL || info->data == NULL) {
        PyErr_Format(PyExc_RuntimeError, "kernel %U stopped without a reason", self->name);
        return NULL;
    }
    PyObject *pickle = PyImport_ImportModule("pickle");
    if (pickle == NULL)
        return NULL;
    PyObject *told = PyObject_CallMethod(pickle, "loads", "y#", info->data, (Py_ssize_t)info->length);
    Py_DECREF(pickle);
    if (told == NULL)
        return NULL;
    if (PyTuple_Check(told) && PyTuple_GET_SIZE(told) >= 2 &&
        PyExceptionClass_Check(PyTuple_GET_ITEM(told, 0)))
        PyErr_SetObject(PyTuple_GET_ITEM(told, 0), PyTuple_GET_ITEM(told, 1));
    else
        PyErr_Format(PyExc_RuntimeError, "kernel %U stopped: %R", self->name, told);
    Py_DECREF(told);
    return NULL;
}

static int
refuse(Function *self, int position, const argument_t *wanted, PyObject *given)
{
    if (wanted->dimensions)
        PyErr_Format(PyExc_TypeError,
                     "argument %d of kernel %U must be a contiguous%s array of %d dimensions and elements %c%d, not %R",
                     position + 1, self->name, wanted->written ? ", writable" : "", wanted->dimensions,
                     wanted->kind, wanted->size, (PyObject *)Py_TYPE(given));
    else
        PyErr_Format(PyExc_TypeError, "argument %d of kernel %U must be a number, not %R", position + 1,
                     self->name, (PyObject *)Py_TYPE(given));
    return -1;
}

static inline int
unpack_array(Function *self, int position, const argument_t *wanted, PyObject *given, int64_t *slots)
{
    if (!PyArray_Check(given))
        return refuse(self, position, wanted, given);
    PyArrayObject *array = (PyArrayObject *)given;
    PyArray_Descr *type = PyArray_DESCR(array);
    int flags = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | (wanted->written ? NPY_ARRAY_WRITEABLE : 0);
    if (type->kind != wanted->kind || PyDataType_ELSIZE(type) != wanted->size || type->byteorder == '>' ||
        PyArray_NDIM(array) != wanted->dimensions || !PyArray_CHKFLAGS(array, flags))
        return refuse(self, position, wanted, given);
    slots[0] = (int64_t)(intptr_t)PyArray_DATA(array);
    for (int i = 0; i < wanted->dimensions; i++)
        slots[1 + i] = PyArray_DIM(array, i);
    return 1 + wanted->dimensions;
}

static int
unpack_integer(Function *self, int position, const argument_t *wanted, PyObject *given, int64_t *slot)
{
    if (PyLong_Check(given)) {
        *slot = wanted->kind == 'u' ? (int64_t)PyLong_AsUnsignedLongLong(given) : PyLong_AsLongLong(given);
    } else {
        PyObject *number = PyNumber_Index(given);
        if (number == NULL) {
            PyErr_Clear();
            return refuse(self, position, wanted, given);
        }
        *slot = wanted->kind == 'u' ? (int64_t)PyLong_AsUnsignedLongLong(number) : PyLong_AsLongLong(number);
        Py_DECREF(number);
    }
    return *slot == -1 && PyErr_Occurred() ? -1 : 1;
}

static inline int
unpack(Function *self, int position, PyObject *given, int64_t *slots)
{
    const argument_t *wanted = &self->arguments[position];
    if (wanted->dimensions)
        return unpack_array(self, position, wanted, given, slots);
    if (wanted->kind == 'f') {
        double value = PyFloat_AsDouble(given);
        if (value == -1.0 && PyErr_Occurred())
            return -1;
        memcpy(slots, &value, sizeof value);
        return 1;
    }
    if (wanted->kind == 'b') {
        int truth = PyObject_IsTrue(given);
        slots[0] = truth;
        return truth < 0 ? -1 : 1;
    }
    return unpack_integer(self, position, wanted, given, slots);
}

static PyObject *
result_of(const Function *self, int64_t word)
{
    double value;
    switch (self->result) {
    case 'i':
        return PyLong_FromLongLong(word);
    case 'u':
        return PyLong_FromUnsignedLongLong((uint64_t)word);
    case 'b':
        return PyBool_FromLong(word != 0);
    case 'f':
        memcpy(&value, &word, sizeof value);
        return PyFloat_FromDouble(value);
    default:
        Py_RETURN_NONE;
    }
}

static PyObject *
function_call(PyObject *callable, PyObject *const *given, size_t flags, PyObject *named)
{
    Function *self = (Function *)callable;
    int64_t slots[MOST_SLOTS + 1];
    int64_t *next = slots;
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    if (count != self->count || (named != NULL && PyTuple_GET_SIZE(named) > 0))
        return PyErr_Format(PyExc_TypeError, "kernel %U takes %d arguments, all by position", self->name,
                            self->count);
    for (int i = 0; i < count; i++) {
        int used = unpack(self, i, given[i], next);
        if (used < 0)
            return NULL;
        next += used;
    }
    int32_t status;
    Py_BEGIN_ALLOW_THREADS
    status = self->kernel(slots);
    Py_END_ALLOW_THREADS
    return status ? raise_from(self, slots[0]) : result_of(self, slots[0]);
}

static void
function_dealloc(PyObject *object)
{
    Py_DECREF(((Function *)object)->name);
    PyObject_Free(object);
}

static PyObject *
function_repr(PyObject *object)
{
    return PyUnicode_FromFormat("<compiled kernel %U>", ((Function *)object)->name);
}

static PyObject *
function_address(PyObject *object, void *nothing)
{
    int64_t address = 0;
    memcpy(&address, &((Function *)object)->kernel, sizeof(kernel_t));
    return PyLong_FromLongLong(address);
}

static PyGetSetDef function_computed[] = {
    {"address", function_address, NULL, "Of the compiled code, which takes the address of slots.", NULL},
    {NULL},
};

static PyMemberDef function_members[] = {
    {"__name__", T_OBJECT, offsetof(Function, name), READONLY, NULL},
    {NULL},
};

static PyTypeObject FunctionType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "kpg.runtime.native.Function",
    .tp_basicsize = sizeof(Function),
    .tp_dealloc = function_dealloc,
    .tp_repr = function_repr,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Function, call),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_members = function_members,
    .tp_getset = function_computed,
    .tp_doc = "A compiled kernel.",
};

/* "i i82w b": the result, then the arguments; 0 if it is understood. */
static int
read_signature(Function *function, const char *text)
{
    function->result = *text++;
    function->count = 0;
    while (*text == ' ') {
        if (function->count == MOST_ARGUMENTS)
            return -1;
        argument_t *argument = &function->arguments[function->count++];
        memset(argument, 0, sizeof *argument);
        argument->kind = *++text;
        text++;
        if (*text >= '1' && *text <= '8') {
            argument->size = *text++ - '0';
            argument->dimensions = *text++ - '0';
            argument->written = *text++ == 'w';
        }
    }
    return *text == '\0' ? 0 : -1;
}

static PyObject *
make_function(PyObject *module, PyObject *arguments)
{
    PyObject *handle, *name;
    const char *symbol, *signature;
    if (!PyArg_ParseTuple(arguments, "O!sUs", &PyCapsule_Type, &handle, &symbol, &name, &signature))
        return NULL;
    void *library = PyCapsule_GetPointer(handle, "kpg library");
    if (library == NULL)
        return NULL;
    void *address = dlsym(library, symbol);
    if (address == NULL)
        return PyErr_Format(PyExc_ImportError, "no kernel %s in the library", symbol);
    Function *function = PyObject_New(Function, &FunctionType);
    if (function == NULL)
        return NULL;
    function->call = function_call;
    memcpy(&function->kernel, &address, sizeof address);
    function->name = Py_NewRef(name);
    if (read_signature(function, signature) < 0) {
        PyErr_Format(PyExc_ImportError, "kernel %s: signature %s not understood", symbol, signature);
        Py_DECREF(function);
        return NULL;
    }
    return (PyObject *)function;
}

/* Libraries stay open: functions may outlive everything else. */
static PyObject *
open_library(PyObject *module, PyObject *path)
{
    PyObject *bytes;
    if (!PyUnicode_FSConverter(path, &bytes))
        return NULL;
    void *library = dlopen(PyBytes_AS_STRING(bytes), RTLD_NOW | RTLD_LOCAL);
    Py_DECREF(bytes);
    if (library == NULL)
        return PyErr_Format(PyExc_ImportError, "%s", dlerror());
    return PyCapsule_New(library, "kpg library", NULL);
}

/* What level 3 asks for and __builtin_cpu_supports does not know everywhere: LZCNT, MOVBE, F16C. Without LZCNT
 * its code means another instruction, so this must not be guessed. */
#if defined(__x86_64__)
static int
has_rest_of_level_3(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 22) || !(c & 1u << 29))
        return 0;
    return __get_cpuid(0x80000001, &a, &b, &c, &d) && (c & 1u << 5);
}
#endif

static PyObject *
level(PyObject *module, PyObject *nothing)
{
    int found = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    found = 1;
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("ssse3"))
        found = 2;
    if (found == 2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
        __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") && has_rest_of_level_3())
        found = 3;
#endif
    return PyLong_FromLong(found);
}

/* As a kernel: nanoseconds since some time to the first slot. */
static int32_t
read_clock(int64_t *slots)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    slots[0] = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
    return 0;
}

/* Nothing waits here, and nobody is sent a signal because the other side has gone. */
#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

static int32_t
receive(int64_t *slots)
{
    ssize_t count = recv((int)slots[0], (void *)(intptr_t)slots[1], (size_t)slots[2], MSG_DONTWAIT);
    slots[0] = count < 0 ? -errno : count;
    return 0;
}

static int32_t
send_on(int64_t *slots)
{
    ssize_t count = send((int)slots[0], (const void *)(intptr_t)slots[1], (size_t)slots[2], MSG_DONTWAIT | MSG_NOSIGNAL);
    slots[0] = count < 0 ? -errno : count;
    return 0;
}

static int
add_address(PyObject *module, const char *name, kernel_t function)
{
    int64_t address = 0;
    memcpy(&address, &function, sizeof function);
    return PyModule_AddObject(module, name, PyLong_FromLongLong(address));
}

static PyMethodDef methods[] = {
    {"open", open_library, METH_O, "Open a shared library of kernels."},
    {"function", make_function, METH_VARARGS, "A callable for a kernel in a library."},
    {"level", level, METH_NOARGS, "The x86-64 level of this processor, 0 for another one."},
    {NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_call", NULL, -1, methods};

PyMODINIT_FUNC
PyInit__call(void)
{
    import_array();
    if (PyType_Ready(&FunctionType) < 0)
        return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL)
        return NULL;
    if (add_address(module, "CLOCK", read_clock) < 0 || add_address(module, "RECEIVE", receive) < 0 ||
        add_address(module, "SEND", send_on) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
