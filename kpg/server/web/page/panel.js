// What is chosen in the graph: its figures, its text, its plan with what changes cost, and who depends on it.

import { ask, bytes, by, count, duration, failure, h, rate } from "./dom.js";
import { about } from "./graph.js";
import { next } from "./model.js";
import { overlay } from "./overlay.js";
import { open } from "./tabs.js";

const COST = /(O\((?:[^()]|\([^()]*\))*\)[^,;]*?(?=,|;|$))/gm;

export class Panel {
  constructor(page) {
    this.page = page;
    this.element = by("details");
    this.id = null;
  }

  async show(id) {
    this.id = id;
    const { graph } = this.page;
    if (id === null) {
      this.overview();
      return;
    }
    open("details");
    const { model } = graph;
    const box = model.boxes.get(id);
    if (!box) {
      this.operator(model.operators.get(Number(id.slice(3))));
      return;
    }
    this.figures = h("dl", { class: "figures" });
    const body = h("div", {});
    this.element.replaceChildren(h("h2", {}, box.name), h("p", { class: "kind" }, this.kind(box)), this.figures, this.actions(box), body);
    this.update();
    if (box.relation) body.append(...(await this.relation(box.relation.name, id)));
    else if (box.readers.size) body.append(h("h3", {}, `Shared by ${box.readers.size}`), this.links([...box.readers]));
    if (this.id === id) body.append(...this.work(box));
  }

  kind(box) {
    const { relation } = box;
    if (relation?.program) return `a relation of ${relation.program}, kept up to date`;
    return { table: "a table", view: "a materialized view", index: "an index that several views share", shared: "an operator that several views share", goal: "a goal that was asked", flow: "a dataflow of a program" }[box.kind];
  }

  actions(box) {
    const buttons = [];
    if (this.page.graph.folds(box)) buttons.push(h("button", { type: "button", onclick: () => this.page.graph.unfold(box.id) }, "Unfold / fold"));
    if (box.kind === "view") buttons.push(h("button", { type: "button", onclick: () => this.page.watch.begin(box.name) }, "Watch"));
    if (box.relation) buttons.push(h("button", { type: "button", onclick: () => this.page.ask.rows(box.name) }, "Rows"));
    return h("p", { class: "row" }, ...buttons);
  }

  async relation(name, id) {
    const found = await ask(`relation?name=${encodeURIComponent(name)}`);
    if (this.id !== id) return [];
    if (found.error) return [failure(found.error)];
    const parts = [];
    if (found.rules) parts.push(h("h3", {}, "Rules"), h("pre", { class: "code" }, found.rules));
    if (found.sql) parts.push(h("h3", {}, found.overlay ? "What it means in SQL" : "SQL"), h("pre", { class: "code text" }, found.sql.trim()));
    if (found.overlay) this.element.querySelector("p.kind").textContent = "an ego view";
    if (found.overlay) parts.push(h("h3", {}, "Overlay, from writers to readers"), ...overlay(found.overlay));
    const { model } = this.page.graph;
    const [uses, users] = [found.program ? next(model, id, "from") : found.uses, new Set([...found.used_by, ...next(model, id, "to")])];
    if (uses.length) parts.push(h("h3", {}, "Made of"), this.links(uses));
    parts.push(h("h3", {}, "Used by"), users.size ? this.links([...users].sort()) : h("p", { class: "hint" }, "nobody"));
    if (found.explain) parts.push(h("h3", {}, "Plan, with what a change costs"), h("pre", { class: "code plan" }, ...this.costs(found.explain)));
    const columns = found.columns.map((one) => h("tr", {}, h("td", {}, one.name, found.key.includes(one.name) ? h("span", { class: "hint" }, " key") : null), h("td", { class: "hint" }, one.type)));
    parts.push(h("details", {}, h("summary", {}, `${found.columns.length} columns`), h("table", { class: "columns" }, h("tbody", {}, ...columns))));
    return parts;
  }

  /** A plan, in which costs that are more than that of the change stand out. */
  costs(text) {
    const parts = [];
    let from = 0;
    for (const found of text.matchAll(COST)) {
      const label = found[1].trimEnd();
      parts.push(text.slice(from, found.index), h("span", { class: /group|partition/.test(label) ? "cost much" : "cost" }, label));
      from = found.index + label.length;
    }
    return [...parts, text.slice(from)];
  }

  links(names) {
    const { graph } = this.page;
    return h("p", { class: "links" }, ...names.map((name) => {
      const id = [`v:${name}`, `t:${name}`].find((one) => graph.model.boxes.has(one));
      return id ? h("button", { type: "button", class: "link", onclick: () => graph.find(id) }, name) : h("span", {}, name);
    }));
  }

  /** Operators by the time they took. */
  work(box) {
    const { figures, model } = this.page.graph;
    const rows = box.operators
      .map((one) => [one, figures?.get(`op:${one.id}`)])
      .filter(([one, found]) => found && one.loop === null)
      .sort((a, b) => b[1].seconds - a[1].seconds)
      .slice(0, 12)
      .map(([one, found]) => h("tr", {},
        h("td", {}, h("button", { type: "button", class: "link", onclick: () => this.show(`op:${one.id}`) }, one.text)),
        h("td", { class: "number" }, found.rows ? count(found.rows) : ""),
        h("td", { class: "number" }, found.rows ? bytes(found.bytes) : ""),
        h("td", { class: "number" }, duration(found.seconds))));
    if (!rows.length || !model) return [];
    const head = h("tr", {}, ...["operator", "rows", "bytes", "time in all"].map((name, place) => h("th", { class: place ? "number" : null, scope: "col" }, name)));
    return [h("h3", {}, "Operators"), h("table", { class: "work" }, h("thead", {}, head), h("tbody", {}, ...rows))];
  }

  operator(one) {
    if (!one) return;
    const { model } = this.page.graph;
    this.figures = h("dl", { class: "figures" });
    const inputs = one.inputs.map((id) => model.operators.get(id)).filter(Boolean);
    this.element.replaceChildren(
      h("h2", {}, one.text),
      h("p", { class: "kind" }, `operator ${one.id}${one.loop === null ? "" : `, in loop ${one.loop}`}`),
      this.figures,
      h("h3", {}, "Held by"), this.links(one.readers),
      h("h3", {}, "Reads"),
      inputs.length ? h("p", { class: "links" }, ...inputs.map((input) => h("button", { type: "button", class: "link", onclick: () => this.show(`op:${input.id}`) }, input.text))) : h("p", { class: "hint" }, "nothing"),
    );
    this.update();
  }

  overview() {
    const { model } = this.page.graph;
    this.figures = null;
    this.workers = h("div", {});
    const views = [...(model?.boxes.values() ?? [])].filter((box) => box.kind === "view");
    this.element.replaceChildren(
      h("h2", {}, "The dataflow"),
      h("p", {}, "Choose a box to see its text, its plan, what it costs and who depends on it. Boxes of views unfold into their operators."),
      h("p", { class: "hint" }, h("kbd", {}, "/"), " finds, ", h("kbd", {}, "f"), " shows all, ", h("kbd", {}, "+"), h("kbd", {}, "−"), " zoom, arrows go from box to box, ", h("kbd", {}, "u"), " unfolds."),
      views.length ? h("h3", {}, `${views.length} view${views.length === 1 ? "" : "s"}`) : "",
      this.links(views.map((box) => box.name)),
      this.workers,
    );
  }

  /** What each worker keeps and has done; one that has far more than its share has keys that most rows have. */
  crew(workers) {
    if (!workers.length) return;
    const head = ["worker", "rows", "bytes", "time", "sent", "received", "meetings"].map((name, place) => h("th", { class: place ? "number" : null, scope: "col" }, name));
    const heavy = workers.flatMap(([, , , , , , keys], place) => keys.map((key) => h("li", {}, `worker ${place}: ${key}`)));
    const rows = workers.map(([rows, size, time, sent, received, meetings], place) =>
      h("tr", {}, h("td", {}, place), ...[count(rows), bytes(size), duration(time), count(sent), count(received), count(meetings)].map((text) => h("td", { class: "number" }, text))));
    this.workers.replaceChildren(h("h3", {}, `${workers.length} workers`), h("table", { class: "work" }, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows)),
      heavy.length ? h("p", {}, "Keys of which one worker has more than its share:") : "", h("ul", { class: "heavy" }, ...heavy));
  }

  /** Bring the figures up to date. */
  update(all) {
    if (all && this.id === null) this.crew(all.workers);
    const found = this.page.graph.figures?.get(this.id);
    if (!this.figures || !found) return;
    const list = [
      ["rows", about(found)],
      ["bytes", found.bytes ? bytes(found.bytes) : ""],
      ["changes", rate(found.rate) || "none"],
      ["last step", found.last ? duration(found.last) : "not in it"],
      ["share of the time", `${Math.round(found.share * 100)} %`],
    ];
    if (found.rounds) list.push(["rounds", count(found.rounds)]);
    this.figures.replaceChildren(...list.filter(([, value]) => value).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
  }
}
