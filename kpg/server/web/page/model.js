// The boxes of the graph, made of operators: tables, indexes that several views share, and views.

/**
 * Where each operator belongs: a table's source to the table, what one view holds to that view, the output of a
 * view to it, and an index that several hold is a box of its own, with what only leads to it.
 */
export function build(shape) {
  const operators = new Map(shape.operators.map((one, place) => [one.id, { ...one, place }]));
  const boxes = new Map();
  const box = (id, kind, name, relation) => {
    if (!boxes.has(id)) boxes.set(id, { id, kind, name, relation, operators: [], readers: new Set() });
    return boxes.get(id);
  };
  const outputs = new Map();
  const relations = new Map(shape.relations.map((one, place) => [one.name, { ...one, place }]));
  for (const one of relations.values()) {
    if (one.kind === "table") box(`t:${one.name}`, "table", one.name, one);
    if (one.output === null) continue;
    box(`v:${one.name}`, "view", one.name, one);
    if (!outputs.has(one.output)) outputs.set(one.output, one.name);
  }
  const homes = homesOf([...operators.values()], outputs, relations);
  for (const [id, home] of homes) {
    const operator = operators.get(id);
    const kind = { t: "table", a: "index", o: "shared", v: "view" }[home[0]];
    const found = box(home, kind, home.slice(2), relations.get(home.slice(2)));
    found.operators.push(operator);
    if (kind === "index" || kind === "shared") {
      const main = operators.get(Number(home.slice(2)));
      found.name = main.text;
      for (const reader of main.readers) found.readers.add(reader);
    } else if (kind === "view" && !found.relation) found.kind = found.name.includes("/goal") ? "goal" : "flow";
  }
  const { edges, hues } = edgesOf(operators, homes, boxes);
  return { operators, boxes, edges, homes, hues, relations, loops: loopsOf(operators) };
}

function homesOf(operators, outputs, relations) {
  const homes = new Map();
  const consumers = new Map(operators.map((one) => [one.id, []]));
  for (const one of operators) for (const input of one.inputs) consumers.get(input)?.push(one);
  for (const one of operators.toReversed()) {
    if (one.loop !== null && homes.has(one.loop)) {
      homes.set(one.id, homes.get(one.loop));
      continue;
    }
    const table = one.text.startsWith("Source ") ? one.text.slice(7) : null;
    if (table !== null && relations.get(table)?.kind === "table") homes.set(one.id, `t:${table}`);
    else if (outputs.has(one.id)) homes.set(one.id, `v:${outputs.get(one.id)}`);
    else if (one.readers.length === 1) homes.set(one.id, `v:${one.readers[0]}`);
    else if (one.arranged) homes.set(one.id, `a:${one.id}`);
    else {
      const after = new Set(consumers.get(one.id).map((next) => homes.get(next.id)));
      const [only] = after;
      homes.set(one.id, after.size === 1 && only?.startsWith("a:") ? only : `o:${one.id}`);
    }
  }
  return homes;
}

function edgesOf(operators, homes, boxes) {
  const edges = new Map();
  for (const one of operators.values()) {
    for (const input of one.inputs) {
      const from = homes.get(input);
      const to = homes.get(one.id);
      if (from === undefined || from === to) continue;
      edges.set(`${from} ${to}`, { from, to });
    }
  }
  const list = [...edges.values()].filter(({ from, to }) => {
    const around = (box) => ["index", "shared"].includes(box.kind) && edges.has(`${from} ${box.id}`) && edges.has(`${box.id} ${to}`);
    return boxes.get(from).kind !== "table" || ![...boxes.values()].some(around);
  });
  return { edges: list, hues: huesOf(boxes, list) };
}

/** Each table has a colour, and so has what is an index of it alone. */
function huesOf(boxes, edges) {
  const hues = new Map();
  let next = 0;
  for (const one of boxes.values()) if (one.kind === "table") hues.set(one.id, next++ % 8);
  for (const one of boxes.values()) {
    if (one.kind !== "index") continue;
    const from = new Set(edges.filter((edge) => edge.to === one.id).map((edge) => edge.from));
    const [only] = from;
    if (from.size === 1 && hues.has(only)) hues.set(one.id, hues.get(only));
  }
  return hues;
}

function loopsOf(operators) {
  const loops = new Map();
  for (const one of operators.values()) {
    if (one.loop !== null) loops.set(one.loop, [...(loops.get(one.loop) ?? []), one.id]);
  }
  return loops;
}

/** The tables and views that a box is made of (`from`), or that are made of it (`to`): the next ones each way. */
export function next(model, id, way) {
  const other = way === "from" ? "to" : "from";
  const found = new Set();
  const waiting = [id];
  while (waiting.length) {
    const at = waiting.pop();
    for (const edge of model.edges) {
      if (edge[other] !== at) continue;
      const box = model.boxes.get(edge[way]);
      if (box.kind === "index" || box.kind === "shared") waiting.push(box.id);
      else found.add(box.name);
    }
  }
  return [...found].sort();
}

/** What is before and after a box, at any distance. */
export function related(edges, id) {
  const found = new Set([id]);
  for (const [here, there] of [["from", "to"], ["to", "from"]]) {
    const waiting = [id];
    while (waiting.length) {
      const at = waiting.pop();
      for (const edge of edges) {
        if (edge[here] === at && !found.has(edge[there])) {
          found.add(edge[there]);
          waiting.push(edge[there]);
        }
      }
    }
  }
  return found;
}
