// The viewer of graphs, comparisons and e-graphs: panes, search, steps, facts, and questions to the kernel.
// A plain module without framework or network access. The data contain all positions: no layout happens here.

const HELP = "drag or arrows: move · + − 0: zoom, fit · wheel: zoom, after a click into the picture · / search, Enter: next hit · " +
  "click a box: its facts; then ↑ ↓: operand, reader, ← →: neighbours · Enter or double click: open a layer or an e-class · " +
  "Esc: back · f: fold or unfold · c: colours of costs · [ ]: step · the map in the corner: click to move";
// An answer of the kernel that takes longer than this means that nobody answers.
const PATIENCE = 60_000;
// A double click begins with a click: what asks the kernel waits this long, in milliseconds.
const PAUSE = 250;

class Viewer {
  constructor(model, el) {
    this.model = model;
    this.root = element("div", { class: "wb wb-viewer", tabindex: 0 });
    this.root.addEventListener("keydown", (e) => this.key(e));
    this.heat = false;
    el.append(this.root);
    this.data = model.get("data");
    this.panes = [];
    this.unfollow = followTheme(el, this.root, () => this.paintTheme());
    this.build();
    requestAnimationFrame(() => this.panes.forEach((p) => p.fit()));
    model.on("change:data", () => this.replace());
    model.on("change:step", () => this.refresh());
    model.on("msg:custom", (message) => this.answered(message));
  }

  // Colours come with the data: [light, dark] by name.
  paintTheme() {
    for (const name of Object.keys(this.data.colours)) this.root.style.setProperty(`--wb-${name}`, this.colour(`--wb-${name}`));
    this.panes.forEach((p) => p.fill());
  }

  colour(name) {
    const dark = this.root.dataset.theme === "dark" ? 1 : 0;
    return this.data.colours[name.slice(5)]?.[dark] ?? (name === "--wb-heat" ? ["#f08c4a", "#b4480f"][dark] : null);
  }

  costliest() {
    const costs = this.panes.flatMap((p) => [...p.boxes.values()].map((b) => b.cost ?? 0));
    return Math.max(0, ...costs);
  }

  // New data of the same view: the e-class that was asked for stays where it is on the screen.
  replace() {
    this.idle();
    const pane = this.panes[0];
    const [old, scale, place] = [pane.where(this.model.get("data").anchor), pane.k, [pane.x, pane.y]];
    const moved = this.model.get("data").anchor;
    this.build();
    this.panes.forEach((p) => p.fit());
    const now = this.panes[0].where(moved);
    if (!now) return;
    if (old && place[0] !== undefined) {
      this.panes[0].k = scale;
      this.panes[0].moveTo(now[0], now[1], old[2]);
    } else this.panes[0].moveTo(now[0], now[1]);
    const cluster = this.panes[0].clusters.get(moved);
    // A row of the table asks what it costs, too; a part opened in place was asked about before.
    if (cluster) this.choose(this.panes[0], null, cluster, this.wanted !== moved);
    this.wanted = null;
  }

  build() {
    this.data = this.model.get("data");
    this.chosen = null;
    this.cluster = null;
    this.paintTheme();
    this.search = element("input", { type: "search", placeholder: "search", "aria-label": "search", oninput: () => { this.at = -1; this.refresh(); } });
    this.count = element("span", { class: "wb-note", "aria-live": "polite" });
    this.told = element("div", { class: "wb-facts", "aria-live": "polite" });
    this.panes = this.data.panes.map((spec) => new Pane(spec, this));
    if (this.heat) this.panes.forEach((p) => p.fill());
    const folds = this.panes.some((p) => "folded" in p.spec.levels && "whole" in p.spec.levels);
    const controls = element("div", { class: "wb-controls" }, this.search, this.count,
      button("+", "closer", () => this.each((p) => p.zoom(1.25))), button("−", "farther", () => this.each((p) => p.zoom(0.8))),
      button("fit", "fit into the pane", () => this.each((p) => p.fit())),
      button("full", "full screen, or back", () => this.full()),
      ...(folds ? [button("fold", "fold or unfold repeated layers", () => this.fold())] : []),
      ...(this.costliest() ? [button("costs", "colour boxes by cost, or by operator", () => this.colours())] : []),
      ...(this.model.get("draws") && this.data.anchor !== undefined ? [button("roots", "back to the picture from the roots", () => this.ask({ ask: "whole" }, "drawing"))] : []),
      button("SVG", "save the picture as SVG", () => saveSvg(this.pane())), button("PNG", "save the picture as PNG", () => savePng(this.pane())),
      button("?", HELP, () => { this.told.textContent = HELP; }));
    this.status = element("span", { class: "wb-busy", role: "status" });
    controls.append(this.status);
    const legend = element("div", { class: "wb-legend" }, ...this.data.legend.map(([mark, text]) => {
      const [dashes, sign] = this.data.marks[mark];
      const colour = `var(--wb-mark-${mark})`;
      return element("span", {}, element("span", { class: "wb-key", style: `border-color:${colour};border-style:${dashes ? "dashed" : "solid"};color:${colour}` }, sign), ` ${text} `);
    }));
    this.scale = element("span", { class: "wb-scale" });
    legend.append(this.scale);
    this.slider = element("input", { type: "range", min: 0, max: Math.max(0, this.data.steps.length - 1), "aria-label": "step",
      oninput: () => this.step(+this.slider.value) });
    this.label = element("div", { class: "wb-label", "aria-live": "polite" });
    const steps = this.data.steps.length ? [element("div", { class: "wb-controls" },
      button("◀", "step back", () => this.step(this.now() - 1)), button("▶", "step on", () => this.step(this.now() + 1)), this.slider), this.label] : [];
    const table = this.data.table ? [new Table(this.data.table, (key) => (this.data.focus ? this.step(+key) : this.find(key))).root] : [];
    this.root.replaceChildren(element("div", { class: "wb-heading" }, this.data.title), controls, ...steps, legend,
      element("div", { class: "wb-panes" }, ...this.panes.map((p) => p.root)), this.told, ...table);
    this.at = -1;
    this.showScale();
    this.refresh();
  }

  // -- questions to the kernel --------------------------------------------------------------------
  ask(message, what) {
    clearTimeout(this.waiting);
    this.status.textContent = `${what} …`;
    this.waiting = setTimeout(() => { this.status.textContent = "no answer: is the kernel running?"; }, PATIENCE);
    this.model.send(message);
  }

  idle() {
    clearTimeout(this.waiting);
    clearTimeout(this.later);
    this.status.textContent = "";
  }

  open(key) {
    clearTimeout(this.later);
    if (!key || !this.data.panes[0].home) return;
    if (this.model.get("draws")) this.ask({ ask: "open", key }, "drawing");
    else this.told.textContent = "more of an e-graph is drawn by a kernel: run the cell that made this view";
  }

  colours() {
    this.heat = !this.heat;
    this.panes.forEach((p) => p.fill());
    this.showScale();
  }

  showScale() {
    const most = this.costliest();
    const unit = this.data.unit ? ` ${this.data.unit}` : "";
    this.scale.replaceChildren(...(this.heat && most ? ["cost 0", element("span", { class: "wb-ramp" }), `${+most.toPrecision(4)}${unit}`] : []));
  }

  pane() { return this.chosen || this.active() || this.panes[0]; }

  full() {
    if (document.fullscreenElement) document.exitFullscreen();
    else this.root.requestFullscreen?.().then(() => this.panes.forEach((p) => p.fit()));
  }

  each(act) { (this.active() ? [this.active()] : this.panes).forEach(act); }

  active() { return this.panes.find((p) => p.svg === document.activeElement || p.svg === this.root.getRootNode().activeElement); }

  now() { return this.data.steps.length ? Math.min(this.model.get("step"), this.data.steps.length - 1) : null; }

  step(value) {
    this.model.set("step", Math.min(this.data.steps.length - 1, Math.max(0, value)));
    this.model.save_changes();
    if (this.data.focus) this.look();
    this.refresh();
  }

  // The box of the first value that a step of a proof speaks of comes into every pane.
  look() {
    this.chosen = this.cluster = null;
    this.told.replaceChildren();
    for (const pane of this.panes) {
      const boxes = [...pane.boxes.values()];
      const box = this.data.focus[this.now()].map((g) => boxes.find((b) => b.groups?.includes(g))).find((b) => b);
      if (box) pane.centre(box.key);
    }
  }

  fold() {
    this.panes.forEach((p) => p.show(p.name === "whole" ? "folded" : "whole"));
  }

  hits() {
    const text = this.search.value.trim().toLowerCase();
    if (!text) return null;
    const known = new Map();
    return (b) => {
      if (!known.has(b)) known.set(b, [...b.lines, ...(b.groups || []), ...(b.facts || []).flat()].some((t) => `${t}`.toLowerCase().includes(text)));
      return known.get(b);
    };
  }

  refresh() {
    const box = this.chosen && this.chosen.boxes.get(this.chosen.chosen);
    const step = this.now();
    const groups = new Set(box ? box.groups || [] : this.cluster ? [this.cluster] : this.data.focus?.[step] || []);
    const hits = this.hits();
    this.panes.forEach((p) => p.paint(this.chosen, groups, hits, step));
    const found = hits ? this.panes.flatMap((p) => [...p.boxes.values()].filter((b) => !b.hidden && hits(b)).map((b) => [p, b])) : [];
    this.found = found;
    this.count.textContent = hits ? `${found.length} found` : "";
    if (step !== null) {
      this.slider.value = step;
      this.label.textContent = this.data.steps[step];
    }
  }

  next(direction) {
    if (!this.found.length) return;
    this.at = (this.at + direction + this.found.length) % this.found.length;
    const [pane, box] = this.found[this.at];
    this.choose(pane, box.key);
  }

  find(key) {
    for (const pane of this.panes) {
      const cluster = pane.clusters.get(key);
      if (!pane.boxes.has(key) && !cluster) continue;
      // The picture may lie above the window, and its part elsewhere.
      pane.svg.scrollIntoView({ block: "nearest" });
      if (!cluster) return this.choose(pane, key);
      const inside = [...pane.boxes.values()].find((b) => b.cluster === key && !b.hidden);
      if (inside) pane.centre(inside.key);
      return this.choose(pane, null, cluster);
    }
    if (this.model.get("draws")) {
      this.wanted = key;
      this.ask({ ask: "show", key }, "drawing");
    } else this.told.textContent = "not in the picture; more of an e-graph is drawn by a kernel";
  }

  choose(pane, key, cluster = null, quiet = false) {
    this.chosen = key === null ? null : pane;
    this.cluster = cluster ? cluster.key : null;
    pane.chosen = key;
    const thing = cluster || pane.boxes.get(key);
    this.refresh();
    if (!thing) return this.told.replaceChildren();
    if (key !== null) pane.centre(key);
    const groups = new Set(thing.groups || []);
    const related = [];
    for (const other of this.panes) {
      if (other === pane) continue;
      for (const b of other.boxes.values()) {
        if ((b.groups || []).some((g) => groups.has(g))) related.push([other, b]);
      }
    }
    if (related.length) related[0][0].centre(related[0][1].key);
    this.tell(thing, related);
    this.model.set("selected", cluster ? cluster.key : key);
    this.model.save_changes();
    clearTimeout(this.later);
    const asked = cluster ? cluster.key : key;
    if (this.model.get("answers") && !quiet) this.later = setTimeout(() => this.ask({ ask: "more", key: asked }, "asking what the alternatives cost"), PAUSE);
  }

  tell(thing, related) {
    const rows = (thing.facts || []).map(([name, value]) => element("tr", {}, element("th", {}, name), element("td", {}, value)));
    if (related.length) {
      const links = related.map(([pane, b]) => button(b.lines.join(" "), `show in ${pane.spec.title}`, () => this.choose(pane, b.key)));
      rows.push(element("tr", {}, element("th", {}, "corresponds to"), element("td", {}, ...links)));
    }
    const open = thing.opens ? [button("open the layer", "open the layer", () => this.chosen.show(thing.opens))] : [];
    const key = thing.cluster || (this.cluster ?? "");
    if (this.model.get("draws") && key) {
      open.push(button("open", "show all e-nodes of this e-class and their operands, in place", () => this.open(key)), " around it: ");
      for (const hops of [1, 2, 3]) {
        const name = `${hops} hop${hops > 1 ? "s" : ""}`;
        open.push(button(name, `show what is at most ${name} away`, () => this.ask({ ask: "around", key, hops }, "drawing")), " ");
      }
    }
    this.more = element("div");
    this.told.replaceChildren(element("strong", {}, (thing.lines || [thing.label]).join(" ")), " ", ...open,
      element("table", {}, element("tbody", {}, ...rows)), this.more);
  }

  answered(message) {
    if (!message) return;
    if (message.failed) return this.fail(message.failed);
    if (!this.more || message.key !== this.model.get("selected")) return;
    this.idle();
    this.more.replaceChildren(element("strong", {}, message.title), new Table(message, () => {}).root);
  }

  fail(text) {
    this.idle();
    this.status.textContent = `failed: ${text}`;
  }

  key(event) {
    const typing = event.target === this.search;
    if (typing && event.key === "Enter") this.next(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") this.escape();
    else if (typing || event.target.tagName === "BUTTON" || event.ctrlKey || event.metaKey || event.altKey) return;
    else if (event.key === "/") this.search.focus();
    else if (event.key === "+" || event.key === "=") this.each((p) => p.zoom(1.25));
    else if (event.key === "-") this.each((p) => p.zoom(0.8));
    else if (event.key === "0") this.each((p) => p.fit());
    else if (event.key === "f") this.fold();
    else if (event.key === "c") this.colours();
    else if (event.key === "[" && this.data.steps.length) this.step(this.now() - 1);
    else if (event.key === "]" && this.data.steps.length) this.step(this.now() + 1);
    else if (event.target === this.slider) return;
    else if (event.key === "Enter") this.enter();
    else if (event.key.startsWith("Arrow")) this.arrow(event.key.slice(5));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  escape() {
    const pane = this.chosen || this.active() || this.panes[0];
    if (this.search.value) { this.search.value = ""; this.refresh(); }
    else if (this.chosen) { this.chosen.chosen = null; this.chosen = null; this.told.replaceChildren(); this.refresh(); }
    else if (pane.before) pane.show(pane.before);
    pane.svg.focus();
  }

  enter() {
    const pane = this.chosen || this.active() || this.panes[0];
    const box = pane.boxes.get(pane.chosen);
    if (box && box.opens) pane.show(box.opens);
    else if (box && box.cluster) this.open(box.cluster);
    else if (!box) this.choose(pane, [...pane.boxes.values()].find((b) => !b.hidden)?.key ?? null);
  }

  arrow(direction) {
    const pane = this.chosen || this.active() || this.panes[0];
    if (!this.chosen) {
      const [dx, dy] = { Left: [60, 0], Right: [-60, 0], Up: [0, 60], Down: [0, -60] }[direction];
      return pane.move(dx, dy);
    }
    const seen = [...pane.boxes.values()].filter((b) => !b.hidden).map((b) => b.key);
    const at = seen.indexOf(pane.chosen);
    const key = direction === "Up" || direction === "Down"
      ? pane.neighbour(pane.chosen, direction === "Up" ? -1 : 1)
      : seen[(at + (direction === "Left" ? -1 : 1) + seen.length) % seen.length];
    if (key !== null && key !== undefined) this.choose(pane, key);
  }
}

function render({ model, el }) {
  const viewer = new Viewer(model, el);
  return () => { viewer.unfollow(); viewer.idle(); };
}

export default { render };
