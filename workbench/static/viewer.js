// The viewer of graphs, comparisons and e-graphs: panes that pan, zoom, search and show the facts of a box.
// A plain module without framework or network access. The data contain all positions: no layout happens here.

const LINE = 13;
// The scale below which the text of a box, 11 pixels high, cannot be read.
const LEGIBLE = 0.65;
const HELP = "drag or arrows: move · + − 0: zoom, fit · wheel: zoom, after a click into the picture · / search, Enter: next hit · " +
  "click a box: its facts; then ↑ ↓: operand, reader, ← →: neighbours · Enter or double click: open a layer · " +
  "Esc: back · f: fold or unfold · [ ]: step";

let panes_made = 0;

class Pane {
  constructor(spec, viewer) {
    this.spec = spec;
    this.viewer = viewer;
    this.name = spec.start;
    this.id = `wb-arrow-${panes_made++}`;
    this.caption = element("div", { class: "wb-caption" });
    this.layer = element("svg:g");
    const arrow = element("svg:marker", { id: this.id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" },
      element("svg:path", { d: "M0 0L8 4L0 8z", class: "wb-arrow" }));
    this.svg = element("svg:svg", { class: "wb-canvas", tabindex: 0, role: "application", "aria-label": spec.title },
      element("svg:defs", {}, arrow), this.layer);
    this.root = element("div", { class: "wb-pane" }, this.caption, this.svg);
    this.svg.addEventListener("pointerdown", (e) => this.grab(e));
    this.svg.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    this.draw();
  }

  get level() { return this.spec.levels[this.name]; }

  show(name) {
    if (!(name in this.spec.levels) || name === this.name) return;
    this.before = name.startsWith("layer") ? this.name : null;
    this.name = name;
    this.chosen = null;
    this.draw();
    this.fit();
    this.viewer.refresh();
  }

  draw() {
    const { families, marks } = this.viewer.data;
    const level = this.level;
    this.boxes = new Map();
    this.clusters = new Map();
    this.edges = [];
    const back = this.before ? [button("◀ back", "back to the whole graph", () => this.show(this.before)), " "] : [];
    const note = level.note ? element("span", { class: "wb-note" }, ` ${level.note}`) : "";
    this.caption.replaceChildren(...back, this.before ? `${this.spec.title}: ${level.title}` : this.spec.title, note);
    const parts = [];
    for (const c of level.clusters) {
      const [x, y, w, h] = c.at;
      const frame = element("svg:rect", { x, y, width: w, height: h, rx: 4, class: "wb-cluster" });
      const label = element("svg:text", { x: x + 4, y: y + 11, class: "wb-cluster-label" }, c.label);
      const g = element("svg:g", { onclick: () => this.viewer.choose(this, null, c) }, frame, label);
      this.clusters.set(c.key, { ...c, g, frame, label_at: label });
      parts.push(g);
    }
    for (const e of level.edges) {
      const path = element("svg:path", { d: e.path, class: e.bold ? "wb-edge wb-bold" : "wb-edge", "marker-end": `url(#${this.id})` });
      if (e.note) path.append(element("svg:title", {}, e.note));
      this.edges.push({ ...e, g: path });
      parts.push(path);
    }
    for (const b of level.boxes) {
      const [x, y, w, h] = b.at;
      const [colour, dashes, sign] = marks[b.mark || ""];
      const frame = element("svg:rect", { x, y, width: w, height: h, rx: 4, fill: families[b.family || "work"], stroke: colour,
        "stroke-width": b.bold ? 2.6 : b.mark ? 1.8 : 1, "stroke-dasharray": dashes || null });
      const corner = element("svg:text", { x: x + 7, y: y + 12, class: "wb-sign", style: `fill:${colour}` }, sign);
      const texts = b.lines.map((line, k) => element("svg:text", { x: x + w / 2, y: y + LINE * (k + 1) }, line));
      const g = element("svg:g", { class: b.opens ? "wb-box wb-opens" : "wb-box",
        onclick: (event) => { event.stopPropagation(); this.viewer.choose(this, b.key); },
        ondblclick: () => b.opens && this.show(b.opens) }, frame, ...texts, corner);
      this.boxes.set(b.key, { ...b, g, frame, corner });
      parts.push(g);
    }
    this.layer.replaceChildren(...parts);
  }

  // -- the visible part -------------------------------------------------------------------------
  size() {
    const box = this.svg.getBoundingClientRect();
    return [box.width || 600, box.height || 400];
  }

  place() { this.layer.setAttribute("transform", `translate(${this.x} ${this.y}) scale(${this.k})`); }

  fit() {
    const [width, height] = this.level.size;
    const [w, h] = this.size();
    this.k = Math.min(1.2, (w - 16) / width, (h - 16) / height);
    this.x = Math.max(8, (w - width * this.k) / 2);
    this.y = 8;
    const home = this.home();
    // A picture that is not legible as a whole opens on its root, or on what there is of it in this step.
    if (this.k < LEGIBLE && home) {
      const [x, y, bw, bh] = home.at;
      this.k = LEGIBLE;
      this.x = Math.min(8, Math.max(w - width * this.k - 8, w / 2 - (x + bw / 2) * this.k));
      this.y = Math.min(8, Math.max(h - height * this.k - 8, h / 2 - (y + bh / 2) * this.k));
      if (width * this.k < w) this.x = (w - width * this.k) / 2;
      if (height * this.k < h) this.y = 8;
    }
    this.place();
  }

  home() {
    const shown = [...this.boxes.values()].filter((b) => !b.hidden);
    for (const cluster of this.spec.home || []) {
      const found = shown.find((b) => b.cluster === cluster);
      if (found) return found;
    }
    return shown.reduce((least, b) => (least === null || b.at[1] < least.at[1] ? b : least), null);
  }

  zoom(factor, at = null) {
    const [w, h] = this.size();
    const [px, py] = at || [w / 2, h / 2];
    const k = Math.min(4, Math.max(0.05, this.k * factor));
    this.x = px - ((px - this.x) * k) / this.k;
    this.y = py - ((py - this.y) * k) / this.k;
    this.k = k;
    this.place();
  }

  move(dx, dy) { this.x += dx; this.y += dy; this.place(); }

  centre(key) {
    const box = this.boxes.get(key);
    if (!box) return;
    const [x, y, bw, bh] = box.at;
    const [w, h] = this.size();
    const [cx, cy] = [this.x + (x + bw / 2) * this.k, this.y + (y + bh / 2) * this.k];
    if (cx < 40 || cy < 30 || cx > w - 40 || cy > h - 30) this.move(w / 2 - cx, h / 2 - cy);
  }

  grab(event) {
    if (event.button) return;
    this.svg.focus();
    let [x, y] = [event.clientX, event.clientY];
    const drag = (e) => { this.move(e.clientX - x, e.clientY - y); [x, y] = [e.clientX, e.clientY]; };
    const drop = () => { window.removeEventListener("pointermove", drag); window.removeEventListener("pointerup", drop); };
    window.addEventListener("pointermove", drag);
    window.addEventListener("pointerup", drop);
  }

  wheel(event) {
    // The wheel scrolls the page; with Ctrl, or once the picture was clicked, it zooms the picture.
    if (!event.ctrlKey && !event.metaKey && this.viewer.active() !== this) return;
    event.preventDefault();
    const box = this.svg.getBoundingClientRect();
    this.zoom(Math.exp(-event.deltaY / 300), [event.clientX - box.left, event.clientY - box.top]);
  }

  // -- facts of boxes ---------------------------------------------------------------------------
  paint(chosen, groups, hits, step) {
    const marks = this.viewer.data.marks;
    for (const [key, b] of this.boxes) {
      const related = (b.groups || []).some((g) => groups.has(g));
      b.g.classList.toggle("wb-chosen", this.chosen === key && chosen === this);
      b.g.classList.toggle("wb-related", related && !(this.chosen === key && chosen === this));
      b.g.classList.toggle("wb-hit", hits !== null && hits(b));
      b.g.classList.toggle("wb-dim", hits !== null && !hits(b));
      if (step === null) continue;
      b.hidden = (b.born || 0) > step;
      b.g.style.display = b.hidden ? "none" : "";
      const [colour, dashes, sign] = marks[step > 0 && b.born === step ? "new" : b.mark || ""];
      b.frame.setAttribute("stroke", colour);
      b.frame.setAttribute("stroke-dasharray", dashes);
      b.frame.setAttribute("stroke-width", b.bold ? 2.6 : sign ? 1.8 : 1);
      b.corner.style.fill = colour;
      b.corner.textContent = sign;
    }
    if (step === null) return;
    const alive = new Set([...this.boxes.values()].filter((b) => !b.hidden).map((b) => b.cluster));
    for (const [key, c] of this.clusters) {
      const [colour, dashes, sign] = marks[(c.merged || []).includes(step) ? "merged" : c.mark || "stub"];
      c.g.style.display = alive.has(key) ? "" : "none";
      c.frame.setAttribute("stroke", colour);
      c.frame.setAttribute("stroke-dasharray", dashes);
      c.frame.setAttribute("stroke-width", sign ? 2.2 : 1);
      c.label_at.textContent = `${sign} ${c.label}`.trim();
    }
    for (const e of this.edges) {
      const gone = [e.from, e.to].some((k) => this.boxes.get(k)?.hidden);
      e.g.style.display = gone ? "none" : "";
    }
  }

  neighbour(key, direction) {
    const edges = this.edges.filter((e) => (direction < 0 ? e.to === key : e.from === key));
    return edges.length ? (direction < 0 ? edges[0].from : edges[0].to) : null;
  }
}

class Table {
  // A table that is sorted by its headings, which are buttons, so that keys work too.
  constructor(spec, choose) {
    this.spec = spec;
    this.choose = choose;
    this.order = null;
    this.root = element("div", { class: "wb-table" });
    this.draw();
  }

  draw() {
    const { columns, rows, note, keys } = this.spec;
    const order = [...rows.keys()];
    if (this.order !== null) {
      const [column, sign] = this.order;
      order.sort((a, b) => {
        const [p, q] = [rows[a][column], rows[b][column]];
        return sign * (typeof p === "number" && typeof q === "number" ? p - q : `${p}`.localeCompare(`${q}`));
      });
    }
    const heads = columns.map((name, k) => {
      const sorted = this.order && this.order[0] === k ? this.order[1] : 0;
      return element("th", { "aria-sort": sorted ? (sorted > 0 ? "ascending" : "descending") : "none" },
        button(`${name}${sorted ? (sorted > 0 ? " ▲" : " ▼") : ""}`, `sort by ${name}`, () => {
          this.order = [k, sorted > 0 ? -1 : 1];
          this.draw();
        }));
    });
    const body = order.map((r) => element("tr", { tabindex: keys ? 0 : null, onclick: () => keys && this.choose(keys[r]),
      onkeydown: (e) => { if (keys && e.key === "Enter") { e.stopPropagation(); this.choose(keys[r]); } } },
      ...rows[r].map((cell) => element("td", {}, `${cell ?? ""}`))));
    this.root.replaceChildren(element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...body)),
      note ? element("p", { class: "wb-note" }, note) : "");
  }
}

class Viewer {
  constructor(model, el) {
    this.model = model;
    this.root = element("div", { class: "wb-viewer", tabindex: 0 });
    this.root.addEventListener("keydown", (e) => this.key(e));
    this.build();
    el.append(this.root);
    requestAnimationFrame(() => this.panes.forEach((p) => p.fit()));
    model.on("change:data", () => { this.build(); this.panes.forEach((p) => p.fit()); });
    model.on("change:step", () => this.refresh());
    model.on("msg:custom", (message) => this.answered(message));
  }

  build() {
    this.data = this.model.get("data");
    this.chosen = null;
    this.search = element("input", { type: "search", placeholder: "search", "aria-label": "search", oninput: () => { this.at = -1; this.refresh(); } });
    this.count = element("span", { class: "wb-note", "aria-live": "polite" });
    this.told = element("div", { class: "wb-facts", "aria-live": "polite" });
    this.panes = this.data.panes.map((spec) => new Pane(spec, this));
    const folds = this.panes.some((p) => "folded" in p.spec.levels && "whole" in p.spec.levels);
    const controls = element("div", { class: "wb-controls" }, this.search, this.count,
      button("+", "closer", () => this.each((p) => p.zoom(1.25))), button("−", "farther", () => this.each((p) => p.zoom(0.8))),
      button("fit", "fit into the pane", () => this.each((p) => p.fit())),
      button("full", "full screen, or back", () => this.full()),
      ...(folds ? [button("fold", "fold or unfold repeated layers", () => this.fold())] : []),
      button("?", HELP, () => { this.told.textContent = HELP; }));
    const legend = element("div", { class: "wb-legend" }, ...this.data.legend.map(([mark, text]) => {
      const [colour, dashes, sign] = this.data.marks[mark];
      return element("span", {}, element("span", { class: "wb-key", style: `border-color:${colour};border-style:${dashes ? "dashed" : "solid"};color:${colour}` }, sign), ` ${text} `);
    }));
    this.slider = element("input", { type: "range", min: 0, max: Math.max(0, this.data.steps.length - 1), "aria-label": "step",
      oninput: () => this.step(+this.slider.value) });
    this.label = element("div", { class: "wb-label", "aria-live": "polite" });
    const steps = this.data.steps.length ? [element("div", { class: "wb-controls" },
      button("◀", "step back", () => this.step(this.now() - 1)), button("▶", "step on", () => this.step(this.now() + 1)), this.slider), this.label] : [];
    const table = this.data.table ? [new Table(this.data.table, (key) => this.find(key)).root] : [];
    this.root.replaceChildren(element("div", { class: "wb-heading" }, this.data.title), controls, ...steps, legend,
      element("div", { class: "wb-panes" }, ...this.panes.map((p) => p.root)), this.told, ...table);
    this.at = -1;
    this.refresh();
  }

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
    this.refresh();
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
    const groups = new Set(box ? box.groups || [] : this.cluster ? [this.cluster] : []);
    const hits = this.hits();
    const step = this.now();
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
    this.told.textContent = "not in the picture";
    this.model.send({ ask: "show", key });
  }

  choose(pane, key, cluster = null) {
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
    if (this.model.get("answers")) this.model.send({ ask: "more", key: cluster ? cluster.key : key });
  }

  tell(thing, related) {
    const rows = (thing.facts || []).map(([name, value]) => element("tr", {}, element("th", {}, name), element("td", {}, value)));
    if (related.length) {
      const links = related.map(([pane, b]) => button(b.lines.join(" "), `show in ${pane.spec.title}`, () => this.choose(pane, b.key)));
      rows.push(element("tr", {}, element("th", {}, "corresponds to"), element("td", {}, ...links)));
    }
    const open = thing.opens ? [button("open the layer", "open the layer", () => this.chosen.show(thing.opens))] : [];
    this.more = element("div");
    this.told.replaceChildren(element("strong", {}, (thing.lines || [thing.label]).join(" ")), " ", ...open,
      element("table", {}, element("tbody", {}, ...rows)), this.more);
  }

  answered(message) {
    if (!this.more || !message || message.key !== this.model.get("selected")) return;
    this.more.replaceChildren(element("strong", {}, message.title), new Table(message, () => {}).root);
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
  new Viewer(model, el);
}

export default { render };
