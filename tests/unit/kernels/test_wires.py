"""The loops over sockets: as Python they read what compiled ones read."""

import runpy

import numpy as np

from kpg.runtime.kernels import wires
from kpg.runtime.native.interpret import interpret_kernel
from tests.unit.runtime.test_sockets import BINARY, PLAIN, request


def test_python_reads_the_same() -> None:
    number = (-7).to_bytes(4, "big", signed=True)
    sent = [
        request(b"-12", b"ab"),
        request(b"9" * 19, b"x"),
        request(number, (2**40).to_bytes(8, "big")),
        b"Q",
    ]
    memory = np.frombuffer(bytearray(b"".join(sent)), np.uint8)
    lengths = [len(one) for one in sent]
    parts = np.array([np.cumsum([0, *lengths[:-1]]), lengths], np.int64).T.copy()
    found = []
    for kernel in (wires.read, interpret_kernel(runpy.run_path(wires.__file__)["read"])):
        for pattern in (PLAIN, BINARY):
            words, cells, counts = (np.zeros(shape, np.int64) for shape in ((3, 9), (4, 9), (4,)))
            rows = kernel(
                memory, parts, pattern.head, pattern.tail, pattern.results, pattern.fields,
                pattern.row_template, words, cells, counts,
            )  # fmt: skip
            found.append((rows, words[:, :rows].tolist(), cells[:, :rows].tolist(), counts.tolist()))
    assert found[:2] == found[2:]
    assert [(rows, counts) for rows, _, _, counts in found[:2]] == [(1, [1, 0, 0, 0]), (1, [0, 0, 1, 0])]
    assert [words for _, words, _, _ in found[:2]] == [[[5], [6], [-12]], [[2**40], [6], [-7]]]
