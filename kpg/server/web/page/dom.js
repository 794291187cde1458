// Elements, numbers as people read them, and what is asked of the server.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** An element of HTML; text is never read as HTML. */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** An element of SVG. */
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export const by = (id) => document.getElementById(id);

const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (value) => (value === null || value === undefined ? "" : value < 10000 ? value.toLocaleString("en") : short.format(value));

export function bytes(value) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let place = 0;
  while (value >= 1000 && place < 4) {
    value /= 1024;
    place += 1;
  }
  return `${value < 10 && place ? value.toFixed(1) : Math.round(value)} ${units[place]}`;
}

export function duration(microseconds) {
  if (microseconds < 1000) return `${Math.round(microseconds)} µs`;
  if (microseconds < 1e6) return `${(microseconds / 1000).toFixed(microseconds < 1e4 ? 1 : 0)} ms`;
  return `${(microseconds / 1e6).toFixed(1)} s`;
}

export function rate(value) {
  if (!value) return "";
  return value < 1 ? "<1/s" : `${count(Math.round(value))}/s`;
}

/** What the server answers, as data; an error of the server's has its `error`. */
export async function ask(path, body) {
  const options = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(path, { ...options, cache: "no-store" });
  return answer.json();
}

export const quoted = (name) => name.split(".").map((part) => `"${part.replaceAll('"', '""')}"`).join(".");

export const literal = (value) =>
  value === null ? "NULL" : `'${String(typeof value === "object" ? JSON.stringify(value) : value).replaceAll("'", "''")}'`;

/** What is wrong, where, and what to do. */
export function failure(error) {
  return h(
    "div", { class: "failure", role: "alert" },
    h("strong", {}, error.message ?? String(error)),
    error.sqlstate ? h("span", { class: "state" }, error.sqlstate) : null,
    error.excerpt ? h("pre", {}, error.excerpt) : null,
    error.hint ? h("p", {}, `hint: ${error.hint}`) : null,
  );
}
