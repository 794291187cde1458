// The box in which a statement is asked, explained, or kept as a view.

import { ask, by, count, duration, failure, h, quoted } from "./dom.js";
import { table } from "./table.js";
import { open } from "./tabs.js";

const MOST = 500;
const ALONE = /^\s*select\s+\*\s+from\s+("(?:[^"]|"")+"|[\w.$]+)(?:\s+limit\s+\d+)?\s*;?\s*$/i;

export class Asking {
  constructor(page) {
    this.page = page;
    by("question").addEventListener("submit", (event) => {
      event.preventDefault();
      this.run();
    });
    by("text").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.run();
    });
    by("explain").onclick = () => this.run("EXPLAIN ");
    by("keep").onclick = () => this.keep();
    by("language").onchange = () => this.speak(by("language").value);
  }

  /** Whether a text is SQL or Datalog, whose rules and goals are neither explained here nor kept as a view. */
  speak(language) {
    by("language").value = language;
    by("explain").disabled = by("keep").disabled = language === "datalog";
  }

  rows(name) {
    this.speak("sql");
    by("text").value = `SELECT * FROM ${/^[a-z_][a-z_0-9]*$/.test(name) ? name : quoted(name)} LIMIT 100`;
    this.run();
  }

  keep() {
    const name = by("name").value.trim();
    if (!name) {
      by("name").focus();
      return;
    }
    by("text").value = `CREATE MATERIALIZED VIEW ${quoted(name)} AS\n${by("text").value.trim().replace(/;$/, "")}`;
    this.run();
  }

  async run(before = "") {
    open("ask");
    const answer = by("answer");
    const text = by("text").value;
    if (!text.trim()) return;
    const datalog = by("language").value === "datalog";
    const begun = performance.now();
    answer.replaceChildren(h("p", { class: "hint" }, "…"));
    let found;
    try {
      found = await ask(datalog ? "datalog" : "sql", { query: before + text, max_rows: MOST });
    } catch (error) {
      answer.replaceChildren(failure(error));
      return;
    }
    const took = h("p", { class: "hint" }, `${duration((performance.now() - begun) * 1000)}, epoch ${count(found.epoch)}`);
    answer.replaceChildren(...(datalog ? this.datalog(found) : this.sql(found, text)), found.error ? failure(found.error) : "", took);
    this.page.refresh();
  }

  sql(found, text) {
    const relation = text.match(ALONE)?.[1];
    const name = relation?.startsWith('"') ? relation.slice(1, -1).replaceAll('""', '"') : this.page.nameOf(relation);
    return (found.results ?? []).map((one) => {
      if (!one.columns) return h("p", { class: "done" }, one.command);
      if (one.columns.length === 1 && one.columns[0].name === "QUERY PLAN") return h("pre", { class: "code plan" }, ...this.page.panel.costs(one.rows.map((row) => row[0]).join("\n")));
      return this.rows_(one, name);
    });
  }

  datalog(found) {
    const parts = [];
    if (found.program) parts.push(h("p", { class: "done" }, `${found.program}: ${found.relations.join(", ")}`));
    for (const one of found.warnings ?? []) parts.push(h("pre", { class: "code" }, one));
    if (found.changed !== undefined) parts.push(h("p", { class: "done" }, `${found.changed} rows came or went`));
    for (const one of found.goals ?? []) parts.push(h("h3", {}, one.goal), this.rows_(one));
    return parts;
  }

  rows_(one, relation) {
    const rows = one.rows.length + (one.more ?? 0);
    return h("div", {}, table(one.columns, one.rows, relation), h("p", { class: "hint" }, `${count(rows)} row${rows === 1 ? "" : "s"}${one.more ? `, the first ${MOST} shown` : ""}`));
  }
}
