// Where boxes stand: in layers from left to right, each ordered so that few edges cross, and as level as can be.

const ROUNDS = 12;

/**
 * Positions of `nodes` ({id, w, h, rank: the least layer}) joined by `edges` ({from, to}); no edge leads in a circle.
 * Gives {places: id -> {x, y}, paths: the points of each edge, w, h}.
 */
export function layered(nodes, edges, { across = 60, down = 8 } = {}) {
  const cells = new Map(nodes.map((node) => [node.id, { ...node, before: [], after: [], rank: node.rank ?? 0 }]));
  const known = edges.filter((edge) => cells.has(edge.from) && cells.has(edge.to) && edge.from !== edge.to);
  rank(cells, known);
  const chains = known.map((edge) => chain(cells, edge));
  const layers = [];
  for (const cell of cells.values()) (layers[cell.rank] ??= []).push(cell);
  for (let i = 0; i < layers.length; i += 1) layers[i] ??= [];
  order(layers);
  stand(layers, down);
  let x = 0;
  let height = 0;
  for (const layer of layers) {
    const width = Math.max(0, ...layer.map((cell) => cell.w));
    for (const cell of layer) {
      cell.x = x;
      cell.room = width;
      height = Math.max(height, cell.y + cell.h);
    }
    x += width + (layer.length ? across : 0);
  }
  const places = new Map([...cells.values()].filter((cell) => !cell.dummy).map((cell) => [cell.id, cell]));
  const paths = chains.map(({ edge, steps }) => ({ ...edge, points: pointsOf(steps) }));
  return { places, paths, w: Math.max(0, x - across), h: height };
}

function rank(cells, edges) {
  for (let round = 0, moved = true; moved && round <= cells.size; round += 1) {
    moved = false;
    for (const { from, to } of edges) {
      const least = cells.get(from).rank + 1;
      if (cells.get(to).rank < least) {
        cells.get(to).rank = least;
        moved = true;
      }
    }
  }
}

/** An edge over several layers goes by a lane in each of them, as all edges from the same box do. */
function chain(cells, edge) {
  const first = cells.get(edge.from);
  const last = cells.get(edge.to);
  const steps = [first];
  for (let at = first.rank + 1; at < last.rank; at += 1) {
    const id = `${edge.from} @ ${at}`;
    if (!cells.has(id)) cells.set(id, { id, w: 0, h: 2, rank: at, before: [], after: [], dummy: true });
    steps.push(cells.get(id));
  }
  steps.push(last);
  for (let i = 1; i < steps.length; i += 1) {
    if (steps[i - 1].after.includes(steps[i])) continue;
    steps[i - 1].after.push(steps[i]);
    steps[i].before.push(steps[i - 1]);
  }
  return { edge, steps };
}

const mean = (cells, of) => cells.reduce((sum, cell) => sum + of(cell), 0) / cells.length;

function number(layer) {
  layer.forEach((cell, place) => { cell.place = (place + 0.5) / layer.length; });
}

function order(layers) {
  layers.forEach(number);
  let best = Infinity;
  let kept = layers.map((layer) => [...layer]);
  for (let round = 0; round < ROUNDS * 2; round += 1) {
    const forth = round % 2 === 0;
    for (const layer of forth ? layers : layers.toReversed()) {
      const wish = new Map(layer.map((cell) => {
        const others = forth ? cell.before : cell.after;
        return [cell, others.length ? mean(others, (other) => other.place) : cell.place];
      }));
      layer.sort((a, b) => wish.get(a) - wish.get(b) || a.place - b.place);
      number(layer);
    }
    const found = crossings(layers);
    if (found < best) {
      best = found;
      kept = layers.map((layer) => [...layer]);
    }
  }
  kept.forEach((layer, place) => {
    layers[place] = layer;
    number(layer);
  });
}

function crossings(layers) {
  let found = 0;
  for (const layer of layers) {
    const ends = layer.flatMap((cell) => cell.after.map((other) => other.place).sort((a, b) => a - b));
    for (let i = 0; i < ends.length; i += 1) for (let j = i + 1; j < ends.length; j += 1) found += ends[i] > ends[j];
  }
  return found;
}

function stand(layers, down) {
  for (const layer of layers) {
    let y = 0;
    for (const cell of layer) {
      cell.y = y;
      y += cell.h + down;
    }
  }
  const tallest = Math.max(0, ...layers.map((layer) => (layer.length ? layer.at(-1).y + layer.at(-1).h : 0)));
  for (const layer of layers) {
    const shift = layer.length ? (tallest - layer.at(-1).y - layer.at(-1).h) / 2 : 0;
    for (const cell of layer) cell.y += shift;
  }
  for (let round = 0; round < ROUNDS; round += 1) {
    const forth = round % 2 === 0;
    for (const layer of forth ? layers : layers.toReversed()) level(layer, forth, down, tallest);
  }
  const top = Math.min(...layers.flat().map((cell) => cell.y));
  for (const cell of layers.flat()) cell.y -= top;
}

/** Move boxes to the middle of those they are joined with, in their order, keeping their distance. */
function level(layer, forth, down, tallest) {
  const wish = layer.map((cell) => {
    const others = forth ? cell.before : cell.after;
    return others.length ? mean(others, (other) => other.y + other.h / 2) - cell.h / 2 : cell.y;
  });
  // Boxes that would overlap are one group, whose place is the mean of what its boxes wish.
  const groups = [];
  layer.forEach((cell, i) => {
    let group = { cells: [cell], sum: wish[i], size: 1, height: cell.h, top: wish[i] };
    while (groups.length && groups.at(-1).top + groups.at(-1).height + down > group.top) {
      const before = groups.pop();
      const offset = before.height + down;
      group = {
        cells: [...before.cells, ...group.cells],
        sum: before.sum + group.sum - offset * group.size,
        size: before.size + group.size,
        height: offset + group.height,
      };
      group.top = group.sum / group.size;
    }
    groups.push(group);
  });
  for (const group of groups) {
    let y = group.top;
    for (const cell of group.cells) {
      cell.y = y;
      y += cell.h + down;
    }
  }
  // No layer is taller than it has to be.
  let least = 0;
  for (const cell of layer) {
    cell.y = Math.max(cell.y, least);
    least = cell.y + cell.h + down;
  }
  let most = Math.max(tallest, 0);
  for (const cell of layer.toReversed()) {
    cell.y = Math.min(cell.y, most - cell.h);
    most = cell.y - down;
  }
}

function pointsOf(steps) {
  const points = [];
  steps.forEach((cell, place) => {
    const y = cell.y + cell.h / 2;
    if (place > 0) points.push([cell.x, y]);
    if (place < steps.length - 1) points.push([cell.dummy ? cell.x + cell.room : cell.x + cell.w, y]);
  });
  return points;
}

/** A smooth line through points. */
export function curve(points) {
  let path = `M${points[0][0]} ${points[0][1]}`;
  for (let i = 1; i < points.length; i += 1) {
    const [x0, y0] = points[i - 1];
    const [x1, y1] = points[i];
    const middle = (x0 + x1) / 2;
    path += Math.abs(y0 - y1) < 0.5 ? `L${x1} ${y1}` : `C${middle} ${y0} ${middle} ${y1} ${x1} ${y1}`;
  }
  return path;
}
