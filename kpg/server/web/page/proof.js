// Why a row is there: a tree that opens and closes.

import { ask, by, failure, h, literal, quoted } from "./dom.js";
import { open } from "./tabs.js";

const DEEP = 4; // levels that are open at first
const WORDS = { fact: "fact", source: "row of a table", external: "of the database", negation: "absent", constraint: "condition", rule: "by a rule", view: "view", group: "group", aggregate: "aggregate", contribution: "value", step: "" };

/** What holds; of a row the names of its columns stand back. */
function said(one) {
  if (!one.columns || !one.relation) return [one.text];
  const cells = one.columns.flatMap((name, place) => [place ? ", " : "", h("span", { class: "column" }, `${name} = `), cell(one.row[place])]);
  return [h("strong", {}, one.relation), "(", ...cells, ")"];
}

const cell = (value) => (value === null ? "NULL" : typeof value === "object" ? JSON.stringify(value) : String(value));

const short = (text) => (text.length > 70 ? `${text.slice(0, 69)}…` : text);

function node(nodes, place, level, seen) {
  const one = nodes[place];
  const label = [h("code", {}, ...said(one))];
  const word = WORDS[one.kind] ?? one.kind;
  if (word) label.push(h("span", { class: `kind ${one.kind}` }, word));
  if (one.count !== undefined) label.push(h("span", { class: "hint" }, `over ${one.count} row${one.count === 1 ? "" : "s"}${one.children && one.children.length < one.count ? `, ${one.children.length} shown` : ""}`));
  if (one.superseded) label.push(h("span", { class: "hint" }, "replaced since"));
  if (one.rule) label.push(h("div", { class: "rule" }, one.rule, h("span", { class: "hint" }, ` ${one.place ?? ""}`)));
  if (!one.children?.length) return h("li", { class: "leaf" }, ...label);
  if (seen.has(place)) return h("li", { class: "leaf" }, ...label, h("span", { class: "hint" }, "shown above"));
  seen.add(place);
  const below = h("ul", {});
  const details = h("details", {}, h("summary", {}, ...label), below);
  const grow = () => {
    if (!below.childElementCount) below.append(...one.children.map((child) => node(nodes, child, level + 1, seen)));
  };
  details.addEventListener("toggle", () => details.open && grow());
  if (level < DEEP) {
    grow();
    details.open = true;
  }
  return h("li", {}, details);
}

/** The proof as a tree. */
export const tree = (proof) => h("ul", { class: "proof", "aria-label": "Where the row comes from" }, node(proof.nodes, 0, 0, new Set()));

/** Ask why a row of a relation is there, and show it. */
export async function why(relation, row) {
  const shown = by("why");
  open("why");
  const title = h("h2", {}, "Why ", h("code", {}, short(`${relation}(${row.map(cell).join(", ")})`)));
  shown.replaceChildren(title, h("p", { class: "hint" }, "…"));
  const found = await ask("sql", { query: `EXPLAIN (ROW, FORMAT JSON) ${quoted(relation)} VALUES (${row.map(literal).join(", ")})` });
  if (found.error) {
    shown.replaceChildren(title, failure(found.error));
    return;
  }
  shown.replaceChildren(title, tree(found.results.at(-1).rows[0][0]));
}
