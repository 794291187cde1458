// The graph: boxes that unfold, drawn anew when the dataflow or what is unfolded changes, and their figures.

import { by, bytes, count, duration, rate, s } from "./dom.js";
import { curve, layered } from "./layout.js";
import { related } from "./model.js";

const SIZES = { table: [280, 26], index: [310, 26], shared: [200, 26], view: [400, 26], goal: [400, 26], flow: [400, 26] };
const NAMES = { table: 13, index: 21, shared: 18, view: 19, goal: 19, flow: 19 }; // letters that have room
const KEPT = [["rows", 200], ["bytes", 137], ["changes", 72], ["last step", 10]];
/** Figures of boxes: how far from the right edge each ends. */
const COLUMNS = { table: [["rows", 132], ["bytes", 70], ["changes", 8]], index: [["rows", 106], ["bytes", 42]], shared: [["rows", 10]], view: KEPT, goal: KEPT, flow: KEPT };
const OPERATOR = [158, 40];
const HEAD = 36;
const PAD = 12;
const LEAST = { index: 1, shared: 1, view: 2, goal: 2, flow: 2 };
const KINDS = { table: "table", index: "shared index", shared: "shared operator", view: "view", goal: "goal", flow: "dataflow" };

export const about = (found) => (found.rows === null ? "" : `${found.about ? "~" : ""}${count(found.rows)}`);

function shown(name, found) {
  if (name === "rows") return about(found);
  if (name === "bytes") return found.bytes ? bytes(found.bytes) : "";
  return name === "changes" ? rate(found.rate) : found.last ? duration(found.last) : "";
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

export class Graph {
  constructor(svg, chosen) {
    this.svg = svg;
    this.chosen = chosen;
    this.unfolded = new Set();
    this.selected = null;
    this.texts = new Map();
    this.places = new Map();
    this.view = { x: 0, y: 0, k: 1 };
    this.world = s("g", {});
    svg.append(this.world);
    this.handle();
  }

  show(model) {
    const first = !this.model?.boxes.size;
    this.model = model;
    for (const id of this.unfolded) if (!model.boxes.has(id)) this.unfolded.delete(id);
    this.draw();
    if (first) this.fit();
  }

  // Drawing

  draw() {
    const { model } = this;
    const focused = document.activeElement?.dataset?.id;
    this.texts.clear();
    this.places.clear();
    const boxes = [...model.boxes.values()];
    const shared = boxes.some((box) => box.kind === "index" || box.kind === "shared");
    const inner = new Map();
    const nodes = boxes.map((box) => {
      let [w, h] = SIZES[box.kind];
      if (this.unfolded.has(box.id)) {
        inner.set(box.id, this.inside(box.operators, null));
        w = Math.max(w, inner.get(box.id).w + 2 * PAD);
        h = inner.get(box.id).h + HEAD + PAD;
      }
      return { id: box.id, w, h, rank: shared ? LEAST[box.kind] ?? 0 : Math.min(1, LEAST[box.kind] ?? 0) };
    });
    const found = layered(nodes, model.edges, { across: 80, down: 5 });
    this.size = { w: found.w, h: found.h };
    const edges = s("g", { class: "edges", "aria-hidden": "true" });
    this.lines = found.paths.map((path) => {
      const hue = model.hues.get(path.from);
      const line = s("path", { d: curve(path.points), class: hue === undefined ? "edge" : `edge hue${hue}` });
      edges.append(line);
      return { ...path, line };
    });
    const drawn = s("g", {});
    for (const box of boxes.sort((a, b) => found.places.get(a.id).x - found.places.get(b.id).x || found.places.get(a.id).y - found.places.get(b.id).y)) {
      const { x, y, w, h } = found.places.get(box.id);
      this.places.set(box.id, { x, y, w, h });
      drawn.append(this.box(box, x, y, w, h, inner.get(box.id)));
    }
    this.world.replaceChildren(edges, drawn, this.titles(boxes));
    this.mark();
    if (this.figures) this.update(this.figures);
    if (focused) this.world.querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  box(box, x, y, w, h, inner) {
    const open = inner !== undefined;
    const folds = this.folds(box);
    const hue = this.model.hues.get(box.id);
    const group = s("g", {
      class: `box ${box.kind}${hue === undefined ? "" : ` hue${hue}`}${open ? " open" : ""}`,
      transform: `translate(${x} ${y})`, tabindex: 0, role: "button", "data-id": box.id,
      "aria-expanded": folds ? String(open) : null,
    });
    group.append(s("rect", { class: "body", width: w, height: h, rx: 5 }));
    if (box.kind === "index" || box.kind === "table") group.append(s("rect", { class: "stripe", width: 4, height: h, rx: 2 }));
    if (folds) group.append(s("text", { class: "caret", x: 9, y: 17.5 }, open ? "▾" : "▸"));
    const start = folds ? 24 : 12;
    group.append(s("text", { class: "name", x: start, y: 17.5 }, cut(box.name, NAMES[box.kind])), s("title", {}, `${box.name} (${KINDS[box.kind]})`));
    const right = Math.min(w, SIZES[box.kind][0]);
    const cells = COLUMNS[box.kind].map(([name, place]) => [name, s("text", { class: "figure", x: right - place, y: 17.5 })]);
    const texts = { label: group, cells };
    if (box.kind === "index") group.append(s("text", { class: "readers", x: right - 9, y: 17.5 }, `×${box.readers.size}`));
    texts.heat = s("rect", { class: "heat", x: 1, y: open ? HEAD - 7 : h - 3, height: 2, width: 0 });
    texts.room = right - 2;
    group.append(...cells.map(([, cell]) => cell), texts.heat);
    this.texts.set(box.id, texts);
    if (open) group.append(this.inner(inner, PAD, HEAD));
    return group;
  }

  /** What the columns of figures are, above the first box of each column of boxes. */
  titles(boxes) {
    const group = s("g", { "aria-hidden": "true" });
    const highest = new Map();
    for (const box of boxes) {
      const { x, y } = this.places.get(box.id);
      if (!(highest.get(x)?.y <= y)) highest.set(x, { kind: box.kind, y });
    }
    for (const [x, { kind, y }] of highest) {
      for (const [name, place] of COLUMNS[kind]) group.append(s("text", { class: "figure", x: x + SIZES[kind][0] - place, y: y - 7 }, name));
    }
    return group;
  }

  folds(box) {
    return ["view", "goal", "flow"].includes(box.kind) && box.operators.length > 0;
  }

  /** The layout of operators that are in one loop, or in none; loops in it are boxes of their own. */
  inside(operators, loop) {
    const { loops } = this.model;
    const all = new Map(operators.map((one) => [one.id, one]));
    const level = (id) => {
      let one = all.get(id);
      while (one && one.loop !== loop) one = all.get(one.loop);
      return one?.id;
    };
    const nodes = [];
    const within = new Map();
    for (const one of operators) {
      if (one.loop !== loop) continue;
      if (loops.has(one.id)) {
        const body = this.inside(operators, one.id);
        within.set(one.id, body);
        nodes.push({ id: one.id, w: Math.max(body.w + 2 * PAD, 160), h: body.h + HEAD + PAD, one });
      } else nodes.push({ id: one.id, w: OPERATOR[0], h: OPERATOR[1], one });
    }
    const edges = new Map();
    for (const one of operators) {
      const to = level(one.id);
      for (const input of one.inputs) {
        const from = level(input);
        if (from !== undefined && to !== undefined && from !== to) edges.set(`${from} ${to}`, { from, to });
      }
    }
    const placed = layered(nodes, [...edges.values()], { across: 30, down: 14 });
    const backs = loop === null ? [] : this.backs(operators, loop);
    return { ...placed, h: placed.h + (backs.length ? 8 + 6 * backs.length : 0), nodes, within, backs, low: placed.h };
  }

  /** From what a loop results in to the variable by which the next round begins. */
  backs(operators, loop) {
    const body = operators.filter((one) => one.loop === loop);
    const inside = new Set(body.map((one) => one.id));
    const results = new Set(operators.filter((one) => !inside.has(one.id)).flatMap((one) => one.inputs.filter((id) => inside.has(id))));
    const variables = body.filter((one) => one.text.startsWith("Variable"));
    return results.size === variables.length ? [...results].sort((a, b) => a - b).map((from, place) => [from, variables[place].id]) : [];
  }

  inner(layout, x, y) {
    const group = s("g", { transform: `translate(${x} ${y})` });
    for (const path of layout.paths) group.append(s("path", { class: "edge inner", d: curve(path.points) }));
    (layout.backs ?? []).forEach(([from, to], place) => {
      const [a, b] = [layout.places.get(from), layout.places.get(to)];
      if (!a || !b) return;
      const low = layout.low + 8 + 6 * place;
      const [x0, y0, x1, y1] = [a.x + a.w / 2, a.y + a.h, b.x - 9, b.y + b.h / 2];
      group.append(s("path", { class: "edge inner back", d: `M${x0} ${y0}L${x0} ${low - 6}Q${x0} ${low} ${x0 - 6} ${low}L${x1 + 6} ${low}Q${x1} ${low} ${x1} ${low - 6}L${x1} ${y1 + 6}Q${x1} ${y1} ${x1 + 6} ${y1}L${b.x} ${y1}` }));
    });
    for (const node of layout.nodes) {
      const place = layout.places.get(node.id);
      const id = `op:${node.id}`;
      const body = layout.within.get(node.id);
      const kind = body ? "loop" : node.one.arranged ? "arranged" : "plain";
      const drawn = s("g", { class: `operator ${kind}`, transform: `translate(${place.x} ${place.y})`, tabindex: 0, role: "button", "data-id": id });
      drawn.append(s("rect", { class: "body", width: place.w, height: place.h, rx: 4 }), s("title", {}, node.one.text));
      drawn.append(s("text", { class: "name", x: 10, y: body ? 21 : 17 }, cut(node.one.text, 21)));
      const texts = { label: drawn, line: s("text", { class: "figure left", x: body ? 60 : 10, y: body ? 21 : 32 }), room: place.w - 2, operator: node.one };
      texts.heat = s("rect", { class: "heat", x: 1, y: body ? HEAD - 7 : place.h - 3, height: 2, width: 0 });
      drawn.append(texts.line, texts.heat);
      if (body) drawn.append(this.inner(body, PAD, HEAD));
      this.texts.set(id, texts);
      group.append(drawn);
    }
    return group;
  }

  // Figures

  update(figures) {
    this.figures = figures;
    for (const [id, texts] of this.texts) {
      const found = figures.get(id);
      if (!found) continue;
      texts.heat.setAttribute("width", Math.round(texts.room * Math.min(1, found.share)));
      if (texts.operator) {
        const parts = [found.rows ? `${count(found.rows)} rows` : "", found.rows ? bytes(found.bytes) : "", found.last ? duration(found.last) : ""];
        if (found.rounds) parts.unshift(`${found.rounds} round${found.rounds === 1 ? "" : "s"}`);
        else if (!found.rows) parts.unshift(`${count(found.given)} out`);
        texts.line.textContent = parts.filter(Boolean).join(" · ");
      } else {
        for (const [name, cell] of texts.cells) cell.textContent = shown(name, found);
      }
      texts.label.classList.toggle("busy", found.rate > 0);
      texts.label.setAttribute("aria-label", this.spoken(id, found));
    }
  }

  spoken(id, found) {
    const box = this.model.boxes.get(id);
    const name = box ? `${KINDS[box.kind]} ${box.name}` : this.texts.get(id).operator.text;
    const shared = box?.readers.size ? `, shared by ${[...box.readers].join(", ")}` : "";
    return `${name}: ${found.rows ?? 0} rows${found.last ? `, ${duration(found.last)} in the last step` : ""}${shared}`;
  }

  // Choosing

  select(id, quietly) {
    this.selected = id;
    this.mark();
    if (!quietly) this.chosen(id);
  }

  mark() {
    const at = this.hovered ?? this.selected;
    const home = at?.startsWith("op:") ? this.model.homes.get(Number(at.slice(3))) : at;
    const near = home && this.model.boxes.has(home) ? related(this.model.edges, home) : null;
    this.world.classList.toggle("dimmed", near !== null);
    for (const group of this.world.querySelectorAll("[data-id]")) {
      const { id } = group.dataset;
      group.classList.toggle("near", near?.has(id) ?? false);
      group.classList.toggle("chosen", id === this.selected);
    }
    for (const { from, to, line } of this.lines ?? []) line.classList.toggle("near", Boolean(near?.has(from) && near.has(to)));
  }

  unfold(id, open = !this.unfolded.has(id)) {
    const box = this.model.boxes.get(id);
    if (!box || !this.folds(box)) return;
    const before = this.places.get(id);
    if (open) this.unfolded.add(id);
    else this.unfolded.delete(id);
    this.draw();
    const after = this.places.get(id);
    this.view.x -= (after.x - before.x) * this.view.k;
    this.view.y -= (after.y - before.y) * this.view.k;
    this.place();
    if (open) this.reveal(id);
  }

  foldAll() {
    this.unfolded.clear();
    this.draw();
    this.fit();
  }

  // Moving

  place() {
    const { x, y, k } = this.view;
    this.world.setAttribute("transform", `translate(${x} ${y}) scale(${k})`);
  }

  fit() {
    const { width, height } = this.svg.getBoundingClientRect();
    if (!this.size?.w || !width) return;
    const top = 52;
    const k = Math.min(1.25, (width - 40) / this.size.w, (height - top - 44) / this.size.h);
    this.view = { k, x: Math.max(20, (width - this.size.w * k) / 2), y: top + Math.max(0, (height - top - 44 - this.size.h * k) / 2) };
    this.place();
  }

  zoom(factor, at) {
    const { width, height } = this.svg.getBoundingClientRect();
    const [px, py] = at ?? [width / 2, height / 2];
    const k = Math.min(4, Math.max(0.08, this.view.k * factor));
    const real = k / this.view.k;
    this.view = { k, x: px - (px - this.view.x) * real, y: py - (py - this.view.y) * real };
    this.place();
  }

  /** Have a box be in sight. */
  reveal(id) {
    const place = this.places.get(id);
    if (!place) return;
    const { width, height } = this.svg.getBoundingClientRect();
    const { view } = this;
    const room = Math.min((width - 40) / place.w, (height - 90) / place.h);
    if (view.k < 0.7 || view.k > room) view.k = Math.max(0.3, Math.min(1, room));
    const clamp = (at, low, high) => (high < low ? low : Math.min(high, Math.max(low, at)));
    view.x = clamp(view.x, 20 - place.x * view.k, width - 20 - (place.x + place.w) * view.k);
    view.y = clamp(view.y, 44 - place.y * view.k, height - 44 - (place.y + place.h) * view.k);
    this.place();
  }

  find(id) {
    this.select(id);
    this.reveal(id);
    this.world.querySelector(`[data-id="${CSS.escape(id)}"]`)?.focus({ preventScroll: true });
  }

  handle() {
    const { svg } = this;
    const at = (event) => event.target.closest?.("[data-id]")?.dataset.id;
    let drag = null;
    svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = svg.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), [event.clientX - box.x, event.clientY - box.y]);
    }, { passive: false });
    svg.addEventListener("pointerdown", (event) => {
      if (event.button === 0) drag = { x: event.clientX, y: event.clientY, view: { ...this.view }, moved: false, id: event.pointerId };
    });
    svg.addEventListener("pointermove", (event) => {
      if (!drag) return;
      const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
      if (!drag.moved && Math.hypot(dx, dy) > 4) {
        drag.moved = true;
        svg.setPointerCapture(drag.id);
      }
      if (drag.moved) {
        this.view = { ...drag.view, x: drag.view.x + dx, y: drag.view.y + dy };
        this.place();
      }
    });
    svg.addEventListener("pointerup", () => { setTimeout(() => { drag = null; }); });
    svg.addEventListener("pointercancel", () => { drag = null; });
    svg.addEventListener("click", (event) => {
      if (drag?.moved) return;
      const id = at(event);
      if (event.target.closest?.(".caret")) this.unfold(id);
      else this.select(id ?? null);
    });
    svg.addEventListener("dblclick", (event) => this.unfold(at(event)));
    const hover = (id) => {
      if (id === this.hovered) return;
      this.hovered = id;
      this.mark();
    };
    svg.addEventListener("pointerover", (event) => hover(at(event)));
    svg.addEventListener("pointerleave", () => hover(undefined));
    svg.addEventListener("keydown", (event) => this.key(event, at(event)));
  }

  key(event, id) {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key === "Enter" || event.key === " ") this.select(id ?? null);
    else if (event.key === "u" && id) this.unfold(id);
    else if (event.key === "Escape") this.select(null);
    else if (steps[event.key] && this.places.has(id)) this.focusNext(id, ...steps[event.key]);
    else return;
    event.preventDefault();
  }

  /** Focus the nearest box in a direction. */
  focusNext(id, dx, dy) {
    const here = this.places.get(id);
    let best = null;
    let least = Infinity;
    for (const [other, place] of this.places) {
      const x = place.x + place.w / 2 - here.x - here.w / 2;
      const y = place.y + place.h / 2 - here.y - here.h / 2;
      const along = x * dx + y * dy;
      const beside = Math.abs(x * dy) + Math.abs(y * dx);
      if (other === id || along < 4 || (dy && beside > 60)) continue;
      if (along + 3 * beside < least) [best, least] = [other, along + 3 * beside];
    }
    if (best === null) return;
    this.world.querySelector(`[data-id="${CSS.escape(best)}"]`).focus({ preventScroll: true });
    this.reveal(best);
  }
}

export function tools(graph) {
  by("bigger").onclick = () => graph.zoom(1.3);
  by("smaller").onclick = () => graph.zoom(1 / 1.3);
  by("fit").onclick = () => graph.fit();
  by("fold").onclick = () => graph.foldAll();
}
