"""Kernels that read the live rows of a key range from the layers of a trace, in order.

``layers int64[count, 6]`` has the beginning of each layer's description (see ``layout``). The caller keeps
the layers alive during the call.

A *reading* is an array that says what is read and how far it has come: it is for many tasks, and goes on at
``reading[START]`` with more room if there was not enough. Each kernel returns the number of tasks, or that of
the first for which there was no room.
"""

import numpy as np

from kpg.runtime.kernels import device, inlined, kernel, load_intrinsic
from kpg.runtime.kernels.layout import DATA, DIFF, DIFF_STRIDE, ROWS, TIME, TIME_STRIDE
from kpg.runtime.kernels.words import MAX_WORD, MIN_WORD

START = 0  # the first task that is not done
WRITTEN = 1  # columns of the output
WALKED = 2  # updates looked at
THERE = 3  # rows that were there
SKIP, LIMIT = 4, 5  # the window: copies of a group's rows
TEXTS = 6  # how many texts are among the columns that rows are ordered by
LAYERS_DEPTH = 7  # of the layers' times
ROUNDS = 8  # the first of the rounds read at
TEXT_ENDS = 7  # instead of these two: the column after the words of the first text, and so on

TEXT_SIZE = 7  # the bits of a text's order word that say how many bytes it holds, seven at most

load = load_intrinsic()


@device
def compare_prefix(layers, layer, row, prefix, task, group):
    """Sign of (layer's row) - (prefix of the task), by the first ``group`` columns."""
    for c in range(group):
        a = load(layers[layer, DATA], c * layers[layer, ROWS] + row)
        b = prefix[c, task]
        if a != b:
            return -1 if a < b else 1
    return 0


@device
def compare_rows(layers, a, row_a, b, row_b, width):
    """Sign of (row of layer a) - (row of layer b)."""
    for c in range(width):
        x = load(layers[a, DATA], c * layers[a, ROWS] + row_a)
        y = load(layers[b, DATA], c * layers[b, ROWS] + row_b)
        if x != y:
            return -1 if x < y else 1
    return 0


@device
def visible(layers, layer, row, depth, times, task):
    """Whether an update's time is at most the task's, in the product order."""
    stride = layers[layer, TIME_STRIDE]
    rows = layers[layer, ROWS] if stride == 1 else 1
    for c in range(depth):
        if load(layers[layer, TIME], c * rows + row * stride) > times[c, task]:
            return False
    return True


@device
def first_not_below(layers, layer, prefix, task, group):
    """First row of the layer whose prefix is not below the task's."""
    low = 0
    high = layers[layer, ROWS]
    while low < high:
        middle = (low + high) >> 1
        if compare_prefix(layers, layer, middle, prefix, task, group) < 0:
            low = middle + 1
        else:
            high = middle
    return low


@device
def take_smallest(layers, count, positions, width, depth, prefix, times, task, group, result):
    """Advance past the smallest row at ``positions``; ``result`` = (layer, row, net diff), or layer -1."""
    best = -1
    for layer in range(count):
        row = positions[layer]
        if row < layers[layer, ROWS] and compare_prefix(layers, layer, row, prefix, task, group) == 0:
            if best < 0 or compare_rows(layers, layer, row, best, positions[best], width) < 0:
                best = layer
    result[0] = best
    if best < 0:
        return 0
    best_row = positions[best]
    net = 0
    walked = 0
    for layer in range(count):
        row = positions[layer]
        while row < layers[layer, ROWS] and compare_rows(layers, layer, row, best, best_row, width) == 0:
            if visible(layers, layer, row, depth, times, task):
                net += load(layers[layer, DIFF], row * layers[layer, DIFF_STRIDE])
            row += 1
            walked += 1
        positions[layer] = row
    result[1] = best_row
    result[2] = net
    return walked


@device
def copy_row(layers, layer, row, out, column, width):
    for c in range(width):
        out[c, column] = load(layers[layer, DATA], c * layers[layer, ROWS] + row)


@device
def cut_short(word):
    """Whether a text may go on after the last of its order words: all seven bytes of it are in use."""
    return word > MIN_WORD and word < MAX_WORD and abs(word) & TEXT_SIZE == TEXT_SIZE


@device
def unsettled(layers, layer, row, out, last, reading):
    """Whether a row after row ``last`` of the output may be before it by bytes that a text's words leave out.

    It then agrees with that one up to the end of a text's words, and the text goes on.
    """
    column = 0
    for text in range(reading[TEXTS]):
        end = reading[TEXT_ENDS + text]
        for c in range(column, end):
            if load(layers[layer, DATA], c * layers[layer, ROWS] + row) != out[c, last]:
                return False
        if cut_short(out[end - 1, last]):
            return True
        column = end
    return False


@kernel("int64(int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64[:, ::1])")
def collect(layers, prefix, times, seen_layers, reading, out):
    """For each task: the live rows of its prefix at its time, after ``SKIP``, up to ``LIMIT``.

    ``prefix int64[group, tasks]``, ``times int64[depth, tasks]``; a task sees ``seen_layers`` layers. Into
    the columns of ``out int64[width + 2, capacity]``: a row, its multiplicity, clipped to the window, and the
    task. With ``TEXTS`` rows beyond the limit follow while they may be before the last; nothing is clipped.
    """
    width, depth, group = out.shape[0] - 2, times.shape[0], prefix.shape[0]
    skip, limit, texts = reading[SKIP], reading[LIMIT], reading[TEXTS] > 0
    positions = np.empty(layers.shape[0], np.int64)
    result = np.empty(3, np.int64)
    tasks = seen_layers.shape[0]
    for task in range(reading[START], tasks):
        reading[START] = task
        written = reading[WRITTEN]
        count = seen_layers[task]
        for layer in range(count):
            positions[layer] = first_not_below(layers, layer, prefix, task, group)
        seen = 0
        while seen - skip < limit or texts:
            reading[WALKED] += take_smallest(
                layers, count, positions, width, depth, prefix, times, task, group, result
            )
            if result[0] < 0:
                break
            if result[2] <= 0:
                continue
            if seen - skip >= limit and not unsettled(
                layers, result[0], result[1], out, written - 1, reading
            ):
                break
            first = max(seen, skip)
            seen += result[2]
            last = seen if seen - skip <= limit or texts else skip + limit
            if last <= first:
                continue
            if written == out.shape[1]:
                return task
            copy_row(layers, result[0], result[1], out, written, width)
            out[width, written], out[width + 1, written] = last - first, task
            written += 1
        reading[WRITTEN] = written
    return tasks


@kernel("int64(int64[:, ::1], int64[:, ::1])")
def heads(data, out):
    """The distinct leading columns of sorted rows, into ``out int64[columns, rows]``; how many."""
    count = 0
    for i in range(data.shape[1]):
        equal = count > 0
        for c in range(out.shape[0]):
            equal = equal and data[c, i] == out[c, count - 1]
        if not equal:
            for c in range(out.shape[0]):
                out[c, count] = data[c, i]
            count += 1
    return count


@device
def gallop(layers, layer, low, prefix, task, group):
    """First row of the layer, from row ``low`` on, whose prefix is not below the task's."""
    rows = layers[layer, ROWS]
    step = 1
    while low + step <= rows and compare_prefix(layers, layer, low + step - 1, prefix, task, group) < 0:
        low += step
        step *= 2
    high = min(rows, low + step - 1)
    while low < high:
        middle = (low + high) >> 1
        if compare_prefix(layers, layer, middle, prefix, task, group) < 0:
            low = middle + 1
        else:
            high = middle
    return low


@device
def add_visible(layers, layer, row, bounds, net):
    """Add an update's diff to the net of each corner, a column of ``bounds``, that its time is below."""
    stride = layers[layer, TIME_STRIDE]
    rows = layers[layer, ROWS] if stride == 1 else 1
    diff = load(layers[layer, DIFF], row * layers[layer, DIFF_STRIDE])
    for corner in range(net.shape[0]):
        below = True
        for c in range(bounds.shape[0]):
            below = below and load(layers[layer, TIME], c * rows + row * stride) <= bounds[c, corner]
        if below:
            net[corner] += diff


@device
def slide(seen, net, signs, skip, limit):
    """What a row adds to the windows, summed with the corners' signs; ``seen`` counts the rows before it."""
    change = 0
    for corner in range(net.shape[0]):
        if net[corner] > 0:
            first = max(seen[corner], skip)
            seen[corner] += net[corner]
            last = min(seen[corner], skip + limit)
            if last > first:
                change += signs[corner] * (last - first)
    return change


@device
def begins(layers, layer, row, prefix, number, group):
    """Whether there is a row and it has the prefix."""
    return row < layers[layer, ROWS] and compare_prefix(layers, layer, row, prefix, number, group) == 0


@inlined
def take_next(layers, position, there, width, prefix, number, group, bounds, net, result):
    """Advance past the smallest row at ``position`` of the layers in which one of the group is ``there``.

    Its count below each bound goes to ``net``; ``result`` = (layer, row). Returns how many updates it was, 0
    without a row.
    """
    best, best_row = -1, np.int64(0)
    for layer in range(layers.shape[0]):
        if there[layer] == 1 and (
            best < 0 or compare_rows(layers, layer, position[layer], best, best_row, width) < 0
        ):
            best, best_row = layer, position[layer]
    if best < 0:
        return 0
    for corner in range(net.shape[0]):
        net[corner] = 0
    walked = 0
    for layer in range(layers.shape[0]):
        row = position[layer]
        while there[layer] == 1 and compare_rows(layers, layer, row, best, best_row, width) == 0:
            add_visible(layers, layer, row, bounds, net)
            walked += 1
            row += 1
            if row == layers[layer, ROWS]:
                there[layer] = 0
        position[layer] = row
        if there[layer] == 1 and compare_prefix(layers, layer, row, prefix, number, group) != 0:
            there[layer] = 0
    result[0], result[1] = best, best_row
    return walked


@kernel(
    "int64(int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64[:, ::1], int64[::1], int64[::1],"
    " int64[:, ::1])"
)
def differences(layers, prefix, groups, epochs, offsets, signs, reading, out):
    """For each task: the mixed difference of the window ``SKIP .. SKIP + LIMIT`` of its group.

    Task i is group ``groups[i]``, ascending, at ``(epochs[i], rounds...)``; prefixes ascend too. The corners
    are that time less ``offsets int64[1 + rounds, corners]``, of which the layers know the first
    ``LAYERS_DEPTH`` coordinates. Into the columns of ``out int64[width + 2, capacity]``, in order: row,
    change and task.
    """
    width, depth, group = out.shape[0] - 2, reading[LAYERS_DEPTH], prefix.shape[0]
    skip, limit = reading[SKIP], reading[LIMIT]
    count, corners, tasks = layers.shape[0], signs.shape[0], groups.shape[0]
    bounds = np.empty((depth, corners), np.int64)
    for c in range(1, depth):
        for corner in range(corners):
            bounds[c, corner] = reading[ROUNDS + c - 1] - offsets[c, corner]
    first, position, there = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
    net, seen, result = np.empty(corners, np.int64), np.empty(corners, np.int64), np.empty(2, np.int64)
    for task in range(reading[START], tasks):
        number = groups[task]
        if task == reading[START] or number != groups[task - 1]:
            for layer in range(count):
                first[layer] = gallop(layers, layer, first[layer], prefix, number, group)
        reading[START] = task
        for layer in range(count):
            position[layer] = first[layer]
            there[layer] = 1 if begins(layers, layer, first[layer], prefix, number, group) else 0
        for corner in range(corners):
            bounds[0, corner] = epochs[task] - offsets[0, corner]
            seen[corner] = 0
        written = reading[WRITTEN]
        open_corners = corners
        while open_corners > 0:
            walked = take_next(layers, position, there, width, prefix, number, group, bounds, net, result)
            if walked == 0:
                break
            reading[WALKED] += walked
            change = slide(seen, net, signs, skip, limit)
            live = 0
            open_corners = 0
            for corner in range(corners):
                live |= 1 if net[corner] > 0 else 0
                open_corners += 1 if seen[corner] - skip < limit else 0
            reading[THERE] += live
            if change != 0:
                if written == out.shape[1]:
                    return task
                copy_row(layers, result[0], result[1], out, written, width)
                out[width, written], out[width + 1, written] = change, task
                written += 1
        reading[WRITTEN] = written
    return tasks


@device
def is_listed(out, first, written):
    """Whether column ``written`` of ``out``, but for its last word, occurs before it, from ``first`` on."""
    row = written - 1
    while row >= first:
        equal = True
        for c in range(out.shape[0] - 1):
            if out[c, row] != out[c, written]:
                equal = False
                break
        if equal:
            return True
        row -= 1
    return False


@kernel("int64(int64[:, ::1], int64[:, ::1], int64, int64[::1], int64[:, ::1])")
def group_times(layers, prefix, closed, reading, out):
    """For each group: the distinct times of its updates.

    Epochs before ``closed`` count as one, ``closed - 1``. ``prefix int64[group, tasks]``. Into the columns of
    ``out int64[depth + 1, capacity]``, with room for one more than is listed: a time and the task.
    """
    depth, group = out.shape[0] - 1, prefix.shape[0]
    tasks = prefix.shape[1]
    for task in range(reading[START], tasks):
        reading[START] = task
        first = reading[WRITTEN]
        written = first
        for layer in range(layers.shape[0]):
            row = first_not_below(layers, layer, prefix, task, group)
            stride = layers[layer, TIME_STRIDE]
            rows = layers[layer, ROWS] if stride == 1 else 1
            while begins(layers, layer, row, prefix, task, group):
                for c in range(depth):
                    out[c, written] = load(layers[layer, TIME], c * rows + row * stride)
                if out[0, written] < closed:
                    out[0, written] = closed - 1
                if not is_listed(out, first, written):
                    if written == out.shape[1] - 1:
                        return task
                    out[depth, written] = task
                    written += 1
                row += 1
        reading[WRITTEN] = written
    return tasks


@kernel("int64(int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64[:, ::1])")
def later_rounds(layers, prefix, rounds, reading, out):
    """For each group: the least upper bounds of ``rounds`` and those of its updates, if later.

    In a loop that is not nested only the first of them. ``prefix int64[group, tasks]``. Into the columns of
    ``out int64[k + 1, capacity]``, with room for one more than is listed: rounds and the task. Rounds that
    the layers' times of ``LAYERS_DEPTH`` coordinates lack are 0.
    """
    k, group, tasks = rounds.shape[0], prefix.shape[0], prefix.shape[1]
    for task in range(reading[START], tasks):
        reading[START] = task
        first = reading[WRITTEN]
        written = first
        for layer in range(layers.shape[0]):
            row = first_not_below(layers, layer, prefix, task, group)
            stride = layers[layer, TIME_STRIDE]
            rows = layers[layer, ROWS] if stride == 1 else 1
            while begins(layers, layer, row, prefix, task, group):
                later = False
                for c in range(k):
                    known = c + 1 < reading[LAYERS_DEPTH]
                    t = load(layers[layer, TIME], (c + 1) * rows + row * stride) if known else 0
                    later |= t > rounds[c]
                    out[c, written] = max(t, rounds[c])
                row += 1
                if not later:
                    continue
                if k == 1 and written > first:
                    out[0, first] = min(out[0, first], out[0, written])
                elif k == 1 or not is_listed(out, first, written):
                    if written == out.shape[1] - 1:
                        return task
                    out[k, written] = task
                    written += 1
        reading[WRITTEN] = written
    return tasks


@device
def compare_bound(layers, layer, row, prefix, key, bound):
    """Sign of (layer's key, next column) - (prefix, bound)."""
    for c in range(key):
        a = load(layers[layer, DATA], c * layers[layer, ROWS] + row)
        if a != prefix[c]:
            return -1 if a < prefix[c] else 1
    a = load(layers[layer, DATA], key * layers[layer, ROWS] + row)
    if a == bound:
        return 0
    return -1 if a < bound else 1


@kernel("void(int64[:, ::1], int64, int64[::1], int64, int64, int64[:, ::1])")
def range_bounds(layers, key, prefix, low, high, bounds):
    """``bounds int64[layers, 2]``: the rows with key ``prefix`` whose next column is in [low, high]."""
    for layer in range(layers.shape[0]):
        for which in range(2):
            bound = low if which == 0 else high
            first = 0
            last = layers[layer, ROWS]
            while first < last:
                middle = (first + last) >> 1
                if compare_bound(layers, layer, middle, prefix, key, bound) < which:
                    first = middle + 1
                else:
                    last = middle
            bounds[layer, which] = first
