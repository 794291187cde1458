// A view, or a goal's answer, as it changes: over a WebSocket.

import { by, count, failure, h } from "./dom.js";
import { head, line } from "./table.js";
import { open } from "./tabs.js";

const MOST_SHOWN = 200;
const MOST_LOG = 60;

export class Watching {
  constructor(page) {
    this.page = page;
    this.socket = null;
    by("follow").addEventListener("submit", (event) => {
      event.preventDefault();
      this.begin(by("view").value.trim());
    });
    by("stop").onclick = () => this.end("stopped");
  }

  begin(name) {
    if (!name) return;
    this.end("");
    open("watch");
    by("view").value = name;
    by("stop").disabled = false;
    this.name = name;
    this.goal = name.startsWith("?-");
    this.relation = this.goal ? null : this.page.nameOf(name);
    if (this.page.graph.model?.boxes.has(`v:${this.relation}`)) this.page.graph.select(`v:${this.relation}`, true);
    this.rows = new Map();
    this.changes = 0;
    this.note = h("tbody", {});
    const socket = new WebSocket(new URL("ws", location.href.replace(/^http/, "ws")));
    this.socket = socket;
    socket.onopen = () => socket.send(JSON.stringify({ subscribe: { ...(this.goal ? { goal: name } : { view: name }), progress: true }, id: 1 }));
    socket.onmessage = (event) => socket === this.socket && this.heard(JSON.parse(event.data));
    socket.onclose = (event) => socket === this.socket && this.end(event.reason || "the connection is closed");
  }

  end(why) {
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    by("stop").disabled = true;
    if (socket) by("watching").textContent = why;
  }

  heard(message) {
    if (message.error) {
      this.end("");
      by("rows").replaceChildren(failure(message.error));
      return;
    }
    if (message.columns) {
      this.columns = message.columns;
      this.body = h("tbody", {});
      const titled = [{ name: "epoch", type: "BIGINT" }, { name: "", type: "" }, ...message.columns];
      by("rows").replaceChildren(
        h("h3", {}, "Rows"), h("div", { class: "scroll half" }, h("table", { class: "data" }, head(message.columns, this.relation), this.body)),
        h("h3", {}, "Changes"), h("div", { class: "scroll half" }, h("table", { class: "data log" }, head(titled), this.note)),
      );
      return;
    }
    if (message.progress !== undefined) {
      this.tell(message.progress);
      return;
    }
    const gone = [];
    const changes = (message.changes ?? []).toSorted((one, other) => one[0] - other[0]);
    for (const [diff, row] of changes) this.change(message.epoch, diff, row, message.snapshot !== undefined, gone);
    for (const { element } of gone) element.remove();
    this.tell(message.epoch);
  }

  /** Take one change in; what comes in the place of a row that is alike takes its place in the table, too. */
  change(epoch, diff, row, old, gone) {
    const key = JSON.stringify(row);
    const found = this.rows.get(key) ?? { count: 0, element: null };
    found.count += diff;
    if (found.count <= 0) {
      if (found.element) gone.push({ element: found.element, row });
      this.rows.delete(key);
    } else {
      this.rows.set(key, found);
      const place = found.element ? -1 : gone.findIndex((other) => other.row[0] === row[0] && other.row[1] === row[1]);
      const [before] = place < 0 ? [] : gone.splice(place, 1);
      if (!found.element && (before || this.body.childElementCount < MOST_SHOWN)) {
        found.element = line(this.columns, row, this.relation);
        if (!old) found.element.classList.add("new");
        if (before) before.element.replaceWith(found.element);
        else this.body.append(found.element);
      }
    }
    if (old) return;
    this.changes += 1;
    const sign = h("td", { class: diff > 0 ? "came" : "went" }, diff > 0 ? `+${diff}` : `−${-diff}`);
    const logged = line(this.columns, row, null, h("td", { class: "number" }, count(epoch)));
    logged.children[0].after(sign);
    this.note.prepend(logged);
    while (this.note.childElementCount > MOST_LOG) this.note.lastChild.remove();
  }

  tell(epoch) {
    const shown = this.body.childElementCount;
    const all = this.rows.size;
    by("watching").textContent = `${this.name}: ${count(all)} row${all === 1 ? "" : "s"}${shown < all ? ` (${shown} shown)` : ""}, ${count(this.changes)} changes seen, epoch ${count(epoch)}`;
  }
}
