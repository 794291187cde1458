// The tabs at the side: one is open; arrow keys go from one to the next.

import { by } from "./dom.js";

const NAMES = ["details", "ask", "watch", "why"];

export function open(name, focus = false) {
  for (const one of NAMES) {
    const tab = by(`tab-${one}`);
    tab.setAttribute("aria-selected", String(one === name));
    tab.tabIndex = one === name ? 0 : -1;
    by(one).hidden = one !== name;
    if (one === name && focus) tab.focus();
  }
}

export function tabs() {
  NAMES.forEach((name, place) => {
    const tab = by(`tab-${name}`);
    tab.onclick = () => open(name);
    tab.onkeydown = (event) => {
      const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (move) open(NAMES[(place + move + NAMES.length) % NAMES.length], true);
    };
  });
}
