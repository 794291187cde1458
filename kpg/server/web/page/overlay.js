// The overlay of an ego view: of each level how many nodes are pushed and pulled, and how many edges come into it.

import { count, h, s } from "./dom.js";

const [WIDE, APART, TALL, TOP] = [74, 118, 110, 22];

/** A column for each level, as high as the root of its share; what is pushed is full, what is pulled is hollow. */
export function overlay(found) {
  const { levels } = found;
  const most = Math.max(1, ...levels.map(([pushed, pulled]) => pushed + pulled));
  const high = levels.map(([pushed, pulled]) => Math.max(6, TALL * Math.sqrt((pushed + pulled) / most)));
  const top = high.map((one) => TOP + (TALL - one) / 2);
  const svg = s("svg", { class: "overlay", viewBox: `0 0 ${APART * levels.length - APART + WIDE} ${TOP + TALL + 34}`, role: "img", "aria-label": found.lines.join("; ") });
  levels.forEach(([pushed, pulled, edges], level) => {
    const x = level * APART;
    if (level > 0) {
      const [before, here] = [x - APART + WIDE, top[level]];
      svg.append(s("path", { class: "band", d: `M${before} ${top[level - 1]}L${x} ${here}V${here + high[level]}L${before} ${top[level - 1] + high[level - 1]}Z` }));
      svg.append(s("text", { x: x - (APART - WIDE) / 2, y: TOP + TALL / 2 }, count(edges)));
    }
    const full = high[level] * (pushed / Math.max(1, pushed + pulled));
    svg.append(s("rect", { class: "pulled", x, y: top[level], width: WIDE, height: high[level], rx: 3 }));
    svg.append(s("rect", { class: "pushed", x, y: top[level], width: WIDE, height: full, rx: 3 }));
    svg.append(s("text", { class: "title", x: x + WIDE / 2, y: 12 }, level ? `level ${level}` : "writers"));
    svg.append(s("text", { x: x + WIDE / 2, y: TOP + TALL + 14 }, `${count(pushed)} pushed`));
    svg.append(s("text", { x: x + WIDE / 2, y: TOP + TALL + 30 }, `${count(pulled)} pulled`));
  });
  return [svg, h("pre", { class: "text" }, found.lines.join("\n"))];
}
