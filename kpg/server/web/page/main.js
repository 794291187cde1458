// The page: asks for the dataflow once a second while it is seen, and brings its parts up to date.

import { Asking } from "./asking.js";
import { Chart } from "./chart.js";
import { ask, by, bytes, count, h, rate } from "./dom.js";
import { Graph, tools } from "./graph.js";
import { build } from "./model.js";
import { Panel } from "./panel.js";
import { tabs } from "./tabs.js";
import { Watching } from "./watching.js";

const EVERY = 1000;

class Page {
  constructor() {
    this.graph = new Graph(by("graph"), (id) => this.panel.show(id));
    this.panel = new Panel(this);
    this.chart = new Chart();
    this.ask = new Asking(this);
    this.watch = new Watching(this);
    this.version = 0;
    this.since = 0;
    this.before = null;
    this.samples = [];
    document.addEventListener("visibilitychange", () => this.refresh());
    this.panel.show(null);
    this.tick();
  }

  async tick() {
    if (!document.hidden) await this.refresh();
    setTimeout(() => this.tick(), EVERY);
  }

  async refresh() {
    if (this.busy) return;
    this.busy = true;
    try {
      this.take(await ask(`dataflow?version=${this.version}&since=${this.since}`));
      by("state").textContent = "";
    } catch {
      by("state").textContent = "no answer from the server";
    }
    this.busy = false;
  }

  take(found) {
    if (found.error) throw found.error;
    if (found.shape) {
      this.version = found.version;
      this.shape = found.shape;
      this.graph.show(build(found.shape));
      this.list();
      by("empty").hidden = this.graph.model.boxes.size > 0;
      this.before = null;
      if (this.panel.id === null) this.panel.overview();
    }
    const now = Math.floor(found.took * 4);
    this.since = now - 1;
    this.chart.add(found.steps, now);
    if (this.before?.took !== found.took) {
      this.graph.update(this.figures(found));
      this.panel.update(found);
      this.summary(found);
      this.before = found;
    }
  }

  /** Figures of operators, and of boxes, which are those of their operators. */
  figures(found) {
    const { model } = this.graph;
    const past = this.before;
    const span = past ? found.took - past.took : 0;
    const figures = new Map();
    let all = 0;
    for (const one of model.operators.values()) {
      const [taken, given, rows, size, seconds, last, rounds] = found.figures[one.place];
      const old = past?.figures[one.place];
      const spent = old ? Math.max(0, seconds - old[4]) : 0;
      const moved = old ? Math.max(0, (one.arranged ? taken - old[0] : given - old[1])) : 0;
      all += spent;
      figures.set(`op:${one.id}`, { rows, bytes: size, seconds, last, rounds, spent, given, rate: span ? moved / span : 0 });
    }
    for (const box of model.boxes.values()) figures.set(box.id, this.boxed(box, figures, found));
    for (const one of figures.values()) one.share = all > 0 ? one.spent / all : 0;
    return figures;
  }

  boxed(box, figures, found) {
    const total = { rows: null, bytes: 0, seconds: 0, last: 0, rounds: 0, spent: 0, rate: 0 };
    for (const one of box.operators) {
      const own = figures.get(`op:${one.id}`);
      if (one.loop === null) total.bytes += own.bytes;
      for (const name of ["seconds", "last", "spent"]) total[name] += own[name];
      total.rounds = Math.max(total.rounds, own.rounds);
    }
    if (box.relation) {
      total.rows = found.counts[box.relation.place];
      total.about = found.about.includes(box.relation.place);
      total.bytes += found.sizes[box.relation.place] ?? 0;
    }
    const main = box.relation?.output ?? (box.kind === "index" || box.kind === "shared" ? Number(box.id.slice(2)) : box.operators[0]?.id);
    const source = figures.get(`op:${this.telling(main, figures)}`);
    if (source) {
      total.rate = source.rate;
      if (box.kind === "index") total.rows = source.rows;
    }
    return total;
  }

  /** The operator whose output tells what changes: what a last one computes when it is read only, its input tells. */
  telling(id, figures) {
    const { operators } = this.graph.model;
    let at = id;
    for (let one = operators.get(at); one?.text === "Linear" && figures.get(`op:${at}`).given === 0; one = operators.get(at)) [at] = one.inputs;
    return at;
  }

  summary(found) {
    const past = this.before;
    const span = past ? found.took - past.took : 0;
    const kept = this.shape.relations.filter((one) => one.output !== null).length;
    const state = found.figures.reduce((sum, one, place) => sum + (this.shape.operators[place].loop === null ? one[3] : 0), 0);
    const list = [
      ["epoch", count(found.epoch)],
      ["steps", span ? rate((found.steps_in_all - past.steps_in_all) / span) || "0/s" : ""],
      ["views", count(kept)],
      ["operators", count(found.figures.length)],
      ["state", bytes(state)],
      ["memory", found.memory ? bytes(found.memory) : ""],
      ["clients", count(found.clients.postgres + found.clients.http)],
      ["workers", found.workers.length ? count(found.workers.length) : ""],
    ];
    by("summary").replaceChildren(...list.filter(([, value]) => value).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
  }

  list() {
    const names = this.shape.relations.filter((one) => one.kind !== "table").map((one) => h("option", { value: one.name }));
    by("views").replaceChildren(...names);
  }

  /** A relation's name as the catalog has it. */
  nameOf(text) {
    const wanted = text?.toLowerCase();
    return this.shape?.relations.find((one) => one.name.toLowerCase() === wanted)?.name ?? null;
  }
}

function searching(page) {
  const [input, list] = [by("search"), by("found")];
  let at = 0;
  const items = () => [...list.children];
  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const choose = (id) => {
    close();
    input.value = "";
    page.graph.find(id);
  };
  const mark = () => {
    items().forEach((item, place) => item.setAttribute("aria-selected", String(place === at)));
    if (items()[at]) input.setAttribute("aria-activedescendant", items()[at].id);
  };
  input.addEventListener("input", () => {
    const text = input.value.trim().toLowerCase();
    const boxes = [...(page.graph.model?.boxes.values() ?? [])];
    const hits = text ? boxes.filter((box) => box.name.toLowerCase().includes(text)).sort((a, b) => a.name.length - b.name.length).slice(0, 12) : [];
    list.replaceChildren(...hits.map((box, place) => h("li", { role: "option", id: `hit${place}`, onpointerdown: () => choose(box.id) }, box.name, h("span", { class: "hint" }, ` ${box.kind}`))));
    list.hidden = hits.length === 0;
    input.setAttribute("aria-expanded", String(hits.length > 0));
    at = 0;
    list.ids = hits.map((box) => box.id);
    mark();
  });
  input.addEventListener("keydown", (event) => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move && list.ids?.length) at = (at + move + list.ids.length) % list.ids.length;
    else if (event.key === "Enter" && !list.hidden) choose(list.ids[at]);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
    mark();
  });
  input.addEventListener("blur", close);
}

function keys(page) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    const act = { "/": () => by("search").focus(), f: () => page.graph.fit(), "+": () => page.graph.zoom(1.3), "-": () => page.graph.zoom(1 / 1.3) }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}

function theme(page) {
  const root = document.documentElement;
  const set = (name) => {
    root.dataset.theme = name;
    by("theme").textContent = name === "dark" ? "Light" : "Dark";
    page.chart.draw();
  };
  const light = matchMedia("(prefers-color-scheme: light)");
  const wished = () => set(localStorage.getItem("theme") ?? (light.matches ? "light" : "dark"));
  light.addEventListener("change", wished);
  wished();
  by("theme").onclick = () => {
    const next = root.dataset.theme === "dark" ? "light" : "dark";
    localStorage.setItem("theme", next);
    set(next);
  };
}

const page = new Page();
tabs();
tools(page.graph);
searching(page);
keys(page);
theme(page);
