"""Kernels that read the live rows of a key range from the layers of a trace, in order.

``layers int64[count, 6]`` has the beginning of each layer's description (see ``layout``). The caller keeps
the layers alive during the call.
"""

import numpy as np

from kpg.runtime.kernels import device, kernel, load_intrinsic
from kpg.runtime.kernels.layout import DATA, DIFF, DIFF_STRIDE, ROWS, TIME, TIME_STRIDE

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
def tied(layers, layer, row, out, last, ties):
    """Whether a row agrees with row ``last`` of the output on the first ``ties`` columns."""
    for c in range(ties):
        if load(layers[layer, DATA], c * layers[layer, ROWS] + row) != out[c, last]:
            return False
    return True


@kernel(
    "int64(int64[:, ::1], int64, int64, int64[:, ::1], int64[:, ::1], int64[::1], int64, int64, int64, int64,"
    " int64, int64[:, ::1], int64[::1], int64[::1], int64[::1])"
)
def collect(
    layers,
    width,
    depth,
    prefix,
    times,
    seen_layers,
    group,
    skip,
    limit,
    ties,
    start,
    out,
    out_count,
    out_task,
    state,
):
    """For each task from ``start``: the live rows of its prefix at its time, after ``skip``, up to ``limit``.

    ``prefix int64[group, tasks]``, ``times int64[depth, tasks]``; a task sees ``seen_layers`` layers.
    Multiplicities go to ``out_count``, clipped to the window. With ``ties > 0`` rows beyond the limit
    follow as long as they agree with the last on the first ``ties`` columns, and nothing is clipped.
    ``state`` = (rows written, updates walked). Returns the first task that did not fit into ``out``, or the
    number of tasks.
    """
    positions = np.empty(layers.shape[0], np.int64)
    result = np.empty(3, np.int64)
    capacity = out.shape[1]
    tasks = seen_layers.shape[0]
    for task in range(start, tasks):
        written = state[0]
        count = seen_layers[task]
        for layer in range(count):
            positions[layer] = first_not_below(layers, layer, prefix, task, group)
        seen = 0
        while seen - skip < limit or ties > 0:
            state[1] += take_smallest(
                layers, count, positions, width, depth, prefix, times, task, group, result
            )
            if result[0] < 0:
                break
            if result[2] <= 0:
                continue
            if seen - skip >= limit and not tied(layers, result[0], result[1], out, written - 1, ties):
                break
            first = max(seen, skip)
            seen += result[2]
            last = seen if seen - skip <= limit or ties > 0 else skip + limit
            if last <= first:
                continue
            if written == capacity:
                return task
            for c in range(width):
                out[c, written] = load(layers[result[0], DATA], c * layers[result[0], ROWS] + result[1])
            out_count[written] = last - first
            out_task[written] = task
            written += 1
        state[0] = written
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


@kernel(
    "int64(int64[:, ::1], int64, int64, int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[:, ::1],"
    " int64[::1], int64, int64, int64, int64[:, ::1], int64[::1], int64[::1], int64[::1])"
)
def differences(
    layers,
    width,
    depth,
    prefix,
    groups,
    epochs,
    rounds,
    offsets,
    signs,
    skip,
    limit,
    start,
    out,
    out_diff,
    out_task,
    state,
):
    """For each task from ``start``: the mixed difference of the window ``skip .. skip + limit`` of its group.

    Task i is group ``groups[i]``, ascending, at ``(epochs[i], rounds...)``; prefixes ascend too. The corners
    are that time less ``offsets int64[1 + rounds, corners]``, of which the layers know the first ``depth``
    coordinates. Rows come in order. ``state`` = (rows written, updates walked, rows that were there).
    Returns the first task for which there was no room in ``out``, or the number of tasks.
    """
    count = layers.shape[0]
    group = prefix.shape[0]
    corners = signs.shape[0]
    bounds = np.empty((depth, corners), np.int64)
    for c in range(1, depth):
        for corner in range(corners):
            bounds[c, corner] = rounds[c - 1] - offsets[c, corner]
    first = np.zeros(count, np.int64)
    position = np.zeros(count, np.int64)
    there = np.zeros(count, np.int64)
    net = np.empty(corners, np.int64)
    seen = np.empty(corners, np.int64)
    tasks = groups.shape[0]
    for task in range(start, tasks):
        number = groups[task]
        if task == start or number != groups[task - 1]:
            for layer in range(count):
                first[layer] = gallop(layers, layer, first[layer], prefix, number, group)
        for layer in range(count):
            row = first[layer]
            position[layer] = row
            there[layer] = (
                1
                if row < layers[layer, ROWS]
                and compare_prefix(layers, layer, row, prefix, number, group) == 0
                else 0
            )
        for corner in range(corners):
            bounds[0, corner] = epochs[task] - offsets[0, corner]
            seen[corner] = 0
        written = state[0]
        open_corners = corners
        best_row = np.int64(0)
        while open_corners > 0:
            best = -1
            for layer in range(count):
                if there[layer] == 1 and (
                    best < 0 or compare_rows(layers, layer, position[layer], best, best_row, width) < 0
                ):
                    best = layer
                    best_row = position[layer]
            if best < 0:
                break
            for corner in range(corners):
                net[corner] = 0
            for layer in range(count):
                row = position[layer]
                while there[layer] == 1 and compare_rows(layers, layer, row, best, best_row, width) == 0:
                    add_visible(layers, layer, row, bounds, net)
                    state[1] += 1
                    row += 1
                    if row == layers[layer, ROWS]:
                        there[layer] = 0
                position[layer] = row
                if there[layer] == 1 and compare_prefix(layers, layer, row, prefix, number, group) != 0:
                    there[layer] = 0
            change = slide(seen, net, signs, skip, limit)
            live = 0
            open_corners = 0
            for corner in range(corners):
                live |= 1 if net[corner] > 0 else 0
                open_corners += 1 if seen[corner] - skip < limit else 0
            state[2] += live
            if change != 0:
                if written == out.shape[1]:
                    return task
                for c in range(width):
                    out[c, written] = load(layers[best, DATA], c * layers[best, ROWS] + best_row)
                out_diff[written] = change
                out_task[written] = task
                written += 1
        state[0] = written
    return tasks


@device
def is_listed(out, task, out_task, first, written):
    """Whether column ``written`` of ``out`` occurs before it, from ``first`` on."""
    row = written - 1
    while row >= first and out_task[row] == task:
        equal = True
        for c in range(out.shape[0]):
            if out[c, row] != out[c, written]:
                equal = False
                break
        if equal:
            return True
        row -= 1
    return False


@kernel(
    "int64(int64[:, ::1], int64, int64[:, ::1], int64, int64, int64, int64[:, ::1], int64[::1], int64[::1])"
)
def group_times(layers, depth, prefix, group, closed, start, out, out_task, state):
    """For each group from ``start``: the distinct times of its updates.

    Epochs before ``closed`` count as one, ``closed - 1``. ``prefix int64[group, tasks]``, ``out int64[depth,
    capacity]`` with room for one more column than is listed; ``state[0]`` is the number written. Returns
    the first group that did not fit, or the number of groups.
    """
    capacity = out.shape[1] - 1
    tasks = prefix.shape[1]
    for task in range(start, tasks):
        first = state[0]
        written = first
        for layer in range(layers.shape[0]):
            row = first_not_below(layers, layer, prefix, task, group)
            stride = layers[layer, TIME_STRIDE]
            rows = layers[layer, ROWS] if stride == 1 else 1
            while row < layers[layer, ROWS] and compare_prefix(layers, layer, row, prefix, task, group) == 0:
                for c in range(depth):
                    out[c, written] = load(layers[layer, TIME], c * rows + row * stride)
                if out[0, written] < closed:
                    out[0, written] = closed - 1
                if not is_listed(out, task, out_task, first, written):
                    if written == capacity:
                        return task
                    out_task[written] = task
                    written += 1
                row += 1
        state[0] = written
    return tasks


@kernel(
    "int64(int64[:, ::1], int64, int64[:, ::1], int64[::1], int64, int64[:, ::1], int64[::1], int64[::1])"
)
def later_rounds(layers, depth, prefix, rounds, start, out, out_task, state):
    """For each group from ``start``: the least upper bounds of ``rounds`` and those of its updates, if later.

    In a loop that is not nested only the first of them. ``prefix int64[group, tasks]``, ``out int64[rounds,
    capacity]`` with room for one more column than is listed; ``state[0]`` is the number written. Rounds that
    the layers' times of ``depth`` coordinates lack are 0. Returns the first group that did not fit, or the
    number of groups.
    """
    capacity = out.shape[1] - 1
    tasks = prefix.shape[1]
    group = prefix.shape[0]
    nested = rounds.shape[0] > 1
    for task in range(start, tasks):
        first = state[0]
        written = first
        for layer in range(layers.shape[0]):
            row = first_not_below(layers, layer, prefix, task, group)
            stride = layers[layer, TIME_STRIDE]
            rows = layers[layer, ROWS] if stride == 1 else 1
            while row < layers[layer, ROWS] and compare_prefix(layers, layer, row, prefix, task, group) == 0:
                later = False
                for c in range(rounds.shape[0]):
                    known = c + 1 < depth
                    t = load(layers[layer, TIME], (c + 1) * rows + row * stride) if known else 0
                    later |= t > rounds[c]
                    out[c, written] = max(t, rounds[c])
                row += 1
                if not later:
                    continue
                if not nested and written > first:
                    out[0, first] = min(out[0, first], out[0, written])
                elif not nested or not is_listed(out, task, out_task, first, written):
                    if written == capacity:
                        return task
                    out_task[written] = task
                    written += 1
        state[0] = written
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
