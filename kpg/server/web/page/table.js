// Rows as a table.

import { h } from "./dom.js";
import { why } from "./proof.js";

const NUMBERS = /^(SMALLINT|INTEGER|BIGINT|REAL|DOUBLE|DECIMAL|NUMERIC)/;

export const shown = (value) => (value === null ? h("span", { class: "null" }, "NULL") : typeof value === "object" ? JSON.stringify(value) : String(value));

export function head(columns, more) {
  return h("thead", {}, h("tr", {}, ...columns.map((one) => h("th", { scope: "col", title: one.type, class: NUMBERS.test(one.type) ? "number" : null }, one.name)), more ? h("th", { scope: "col" }, h("span", { class: "hidden" }, "why")) : null));
}

/** A row; `relation`, if it is known, is asked why it is there. */
export function line(columns, row, relation, before) {
  const cells = row.map((value, place) => h("td", { class: NUMBERS.test(columns[place].type) ? "number" : null }, shown(value)));
  const ask = relation ? h("td", { class: "ask" }, h("button", { type: "button", class: "link", onclick: () => why(relation, row) }, "why")) : null;
  return h("tr", {}, before ?? null, ...cells, ask);
}

export function table(columns, rows, relation) {
  return h("div", { class: "scroll" }, h("table", { class: "data" }, head(columns, relation), h("tbody", {}, ...rows.map((row) => line(columns, row, relation)))));
}
