// Steps in the last two minutes: how many each quarter of a second, how many epochs they closed, and their times, in the logarithm.

import { by, count, duration } from "./dom.js";

const SPAN = 480; // quarters of a second
const LOW = 10; // microseconds
const HIGH = 3e5;

export class Chart {
  constructor() {
    this.canvas = by("chart");
    this.quarters = new Map();
    this.last = 0;
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  /** Take in what came since; `now` is the server's quarter. */
  add(steps, now) {
    for (const [quarter, epoch, steps_, seconds, longest] of steps) this.quarters.set(quarter, { epoch, count: steps_, mean: (seconds / steps_) * 1e6, most: longest * 1e6 });
    for (const quarter of this.quarters.keys()) if (quarter < now - SPAN - 4) this.quarters.delete(quarter);
    this.last = now;
    let before = null;
    for (const [, one] of [...this.quarters].sort((a, b) => a[0] - b[0])) {
      one.epochs = before === null ? 0 : Math.max(0, one.epoch - before);
      before = one.epoch;
    }
    this.draw();
    const lately = [...this.quarters].filter(([quarter]) => quarter >= now - 40).map(([, one]) => one);
    const all = lately.reduce((sum, one) => sum + one.count, 0);
    const closed = lately.reduce((sum, one) => sum + one.epochs, 0);
    const mean = all ? lately.reduce((sum, one) => sum + one.mean * one.count, 0) / all : 0;
    const most = Math.max(0, ...lately.map((one) => one.most));
    by("pace").textContent = all ? `last 10 s: ${count(all)} step${all === 1 ? "" : "s"} for ${count(closed)} epoch${closed === 1 ? "" : "s"}, ${duration(mean)} each, ${duration(most)} at most` : "no steps in the last 10 s";
    this.canvas.setAttribute("aria-label", `Steps in the last two minutes. ${by("pace").textContent}`);
  }

  draw() {
    const { canvas } = this;
    const { width, height } = canvas.getBoundingClientRect();
    const scale = window.devicePixelRatio || 1;
    if (!width) return;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const paint = canvas.getContext("2d");
    paint.scale(scale, scale);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    // Two charts, one above the other: times, and below them how many steps there were.
    const [left, right, top, floor] = [56, width - 62, 22, height - 18];
    const bottom = top + Math.round((floor - top) * 0.64);
    const ceiling = bottom + 10;
    const at = (quarter) => left + ((quarter - this.last + SPAN) / SPAN) * (right - left);
    const up = (micros) => bottom - (Math.log(Math.max(LOW, Math.min(HIGH, micros)) / LOW) / Math.log(HIGH / LOW)) * (bottom - top);
    paint.font = "11px system-ui, sans-serif";
    paint.textBaseline = "middle";
    paint.textAlign = "right";
    for (const micros of [10, 100, 1000, 10000, 100000].filter((_, place) => place % 2 === 0)) {
      paint.strokeStyle = colour("--grid");
      paint.beginPath();
      paint.moveTo(left, Math.round(up(micros)) + 0.5);
      paint.lineTo(right, Math.round(up(micros)) + 0.5);
      paint.stroke();
      paint.fillStyle = colour("--muted");
      paint.fillText(duration(micros), left - 6, up(micros));
    }
    paint.textAlign = "center";
    for (const seconds of [120, 90, 60, 30]) paint.fillText(`-${seconds} s`, at(this.last - seconds * 4), height - 7);
    paint.fillText("now", right, height - 7);
    const most = Math.max(1, ...[...this.quarters.values()].map((one) => Math.max(one.count, one.epochs)));
    const wide = Math.max(1, (right - left) / SPAN - 0.4);
    paint.strokeStyle = colour("--grid");
    paint.beginPath();
    paint.moveTo(left, floor + 0.5);
    paint.lineTo(right, floor + 0.5);
    paint.stroke();
    for (const [quarter, one] of this.quarters) {
      if (quarter < this.last - SPAN) continue;
      const tall = (of) => Math.max(1, (of / most) * (floor - ceiling));
      paint.fillStyle = colour("--bar");
      paint.fillRect(at(quarter), floor - tall(one.epochs), wide, tall(one.epochs));
      paint.fillStyle = colour("--muted");
      paint.fillRect(at(quarter), floor - tall(one.count), wide, 1.5);
    }
    paint.fillStyle = colour("--muted");
    paint.textAlign = "right";
    if (this.quarters.size) paint.fillText(`${count(most * 4)}/s`, left - 6, ceiling + 8);
    paint.textAlign = "left";
    paint.fillText("– steps", right + 6, floor - 18);
    paint.fillText("▮ epochs", right + 6, floor - 5);
    this.line(paint, (one) => one.most, colour("--most"), at, up, "longest", right);
    this.line(paint, (one) => one.mean, colour("--mean"), at, up, "mean", right);
    paint.fillStyle = colour("--muted");
    paint.font = "600 11px system-ui, sans-serif";
    if (width > 640) paint.fillText("Time of a step", left, 9);
  }

  line(paint, of, colour, at, up, name, right) {
    paint.strokeStyle = colour;
    paint.fillStyle = colour;
    paint.lineWidth = 1.5;
    paint.beginPath();
    let before = -Infinity;
    for (const [quarter, one] of [...this.quarters].sort((a, b) => a[0] - b[0])) {
      if (quarter < this.last - SPAN) continue;
      if (quarter - before > 8) {
        paint.moveTo(at(quarter), up(of(one)));
        paint.fillRect(at(quarter) - 1, up(of(one)) - 1, 2, 2);
      } else paint.lineTo(at(quarter), up(of(one)));
      before = quarter;
    }
    paint.stroke();
    const sum = [...this.quarters.values()];
    if (!sum.length) return;
    // The names beside the lines keep apart, whatever the lines do.
    const middle = (up(LOW) + up(HIGH)) / 2;
    paint.fillText(name, right + 6, name === "mean" ? middle + 9 : middle - 9);
    paint.fillRect(right + 6, name === "mean" ? middle + 16 : middle - 2, 12, 2);
  }
}
