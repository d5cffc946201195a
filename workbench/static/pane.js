// A pane: one drawing that pans, zooms, shows tips, and opens parts. The data contain all positions.

const LINE = 13;
// The scale below which the text of a box, 11 pixels high, cannot be read.
const LEGIBLE = 0.8;
// The facts of a box that its tip shows.
const TIPS = ["type", "result", "attributes", "cost", "made by", "extracted", "operators", "e-class"];
const rgb = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
const blend = (from, to, part) => {
  const [a, b] = [rgb(from), rgb(to)];
  return `#${a.map((v, i) => Math.round(v + (b[i] - v) * part).toString(16).padStart(2, "0")).join("")}`;
};

let panes_made = 0;

class Pane {
  constructor(spec, viewer) {
    this.spec = spec;
    this.viewer = viewer;
    this.name = spec.start;
    this.id = `wb-arrow-${panes_made++}`;
    this.caption = element("div", { class: "wb-caption" });
    this.layer = element("svg:g");
    this.arrow = element("svg:defs", {}, element("svg:marker",
      { id: this.id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" },
      element("svg:path", { d: "M0 0L8 4L0 8z", class: "wb-arrow" })));
    this.svg = element("svg:svg", { class: "wb-canvas", tabindex: 0, role: "application", "aria-label": spec.title }, this.arrow, this.layer);
    this.tip = element("div", { class: "wb-tip", role: "tooltip" });
    this.map = new Minimap(this);
    this.root = element("div", { class: "wb-pane" }, this.caption, element("div", { class: "wb-sheet" }, this.svg, this.map.svg, this.tip));
    this.svg.addEventListener("pointerdown", (e) => this.grab(e));
    this.svg.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    this.svg.addEventListener("pointermove", (e) => this.hover(e));
    this.svg.addEventListener("pointerleave", () => { this.tip.style.display = "none"; });
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
    const { marks } = this.viewer.data;
    const level = this.level;
    this.boxes = new Map();
    this.clusters = new Map();
    this.edges = [];
    this.painted = null;
    const back = this.before ? [button("◀ back", "back to the whole graph", () => this.show(this.before)), " "] : [];
    const note = level.note ? element("span", { class: "wb-note" }, ` ${level.note}`) : "";
    this.caption.replaceChildren(...back, this.before ? `${this.spec.title}: ${level.title}` : this.spec.title, note);
    const parts = [];
    for (const c of level.clusters) {
      const [x, y, w, h] = c.at;
      const frame = element("svg:rect", { x, y, width: w, height: h, rx: 4, class: "wb-cluster", style: "stroke:var(--wb-mark-stub)" });
      const label = element("svg:text", { x: x + 4, y: y + 11, class: "wb-cluster-label" }, c.label);
      const g = element("svg:g", { onclick: () => this.viewer.choose(this, null, c), ondblclick: () => this.viewer.open(c.key) }, frame, label);
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
      const [dashes, sign] = marks[b.mark || ""];
      const frame = element("svg:rect", { x, y, width: w, height: h, rx: 4, style: `fill:var(--wb-fill-${b.family || "work"});stroke:var(--wb-mark-${b.mark || ""})`,
        "stroke-width": b.bold ? 2.6 : b.mark ? 1.8 : 1, "stroke-dasharray": dashes || null });
      const corner = element("svg:text", { x: x + 7, y: y + 12, class: "wb-sign", style: `fill:var(--wb-mark-${b.mark || ""})` }, sign);
      const texts = b.lines.map((line, k) => element("svg:text", { x: x + w / 2, y: y + LINE * (k + 1) }, line));
      const g = element("svg:g", { class: b.opens || b.more ? "wb-box wb-opens" : "wb-box", "data-key": b.key,
        onclick: (event) => { event.stopPropagation(); b.more ? this.viewer.open(b.cluster) : this.viewer.choose(this, b.key); },
        ondblclick: (event) => { event.stopPropagation(); b.opens ? this.show(b.opens) : this.viewer.open(b.cluster); } }, frame, ...texts, corner);
      this.boxes.set(b.key, { ...b, g, frame, corner });
      parts.push(g);
    }
    this.layer.replaceChildren(...parts);
    this.map.draw();
    this.fill();
  }

  // The fill of a box is of its operator's family, or of its cost.
  fill() {
    const most = this.viewer.heat ? this.viewer.costliest() : 0;
    for (const b of this.boxes.values()) {
      const cost = most && b.cost !== undefined ? Math.sqrt(b.cost / most) : null;
      b.frame.style.fill = cost === null ? `var(--wb-fill-${most ? "input" : b.family || "work"})`
        : blend(this.viewer.colour("--wb-paper"), this.viewer.colour("--wb-heat"), 0.06 + 0.94 * cost);
    }
  }

  // -- the visible part -------------------------------------------------------------------------
  size() {
    const box = this.svg.getBoundingClientRect();
    return [box.width || 600, box.height || 400];
  }

  place() {
    this.layer.setAttribute("transform", `translate(${this.x} ${this.y}) scale(${this.k})`);
    this.map.place();
  }

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

  // Move a point of the drawing to the middle of the pane, or to a point of the pane.
  moveTo(x, y, at = null) {
    const [w, h] = this.size();
    const [px, py] = at || [w / 2, h / 2];
    this.x = px - x * this.k;
    this.y = py - y * this.k;
    this.place();
  }

  // Where the middle of a frame is in the pane.
  where(key) {
    const found = this.clusters.get(key);
    if (!found) return null;
    const [x, y, w, h] = found.at;
    return [x + w / 2, y + h / 2, [this.x + (x + w / 2) * this.k, this.y + (y + h / 2) * this.k]];
  }

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

  hover(event) {
    const over = event.buttons ? null : event.target.closest?.(".wb-box");
    const box = over && this.boxes.get(over.dataset.key);
    this.tip.style.display = box ? "block" : "none";
    if (!box) return;
    const lines = (box.facts || []).filter(([name]) => TIPS.includes(name)).slice(0, 6);
    const hint = box.more ? "click: show them" : box.opens ? "double click: open the layer" : "";
    this.tip.replaceChildren(element("strong", {}, box.lines[0]), ...lines.map(([name, value]) => element("div", {}, `${name}: ${value}`)), hint);
    const sheet = this.svg.getBoundingClientRect();
    const [x, y] = [event.clientX - sheet.left, event.clientY - sheet.top];
    this.tip.style.left = `${Math.max(0, Math.min(x + 14, sheet.width - this.tip.offsetWidth - 4))}px`;
    this.tip.style.top = `${y + 18 + this.tip.offsetHeight < sheet.height ? y + 18 : Math.max(0, y - this.tip.offsetHeight - 10)}px`;
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
    }
    if (step === null || step === this.painted) return;
    this.painted = step;
    for (const b of this.boxes.values()) {
      b.hidden = (b.born || 0) > step;
      b.g.style.display = b.hidden ? "none" : "";
      const mark = step > 0 && b.born === step ? "new" : b.mark || "";
      const [dashes, sign] = marks[mark];
      b.frame.style.stroke = `var(--wb-mark-${mark})`;
      b.frame.setAttribute("stroke-dasharray", dashes);
      b.frame.setAttribute("stroke-width", b.bold ? 2.6 : sign ? 1.8 : 1);
      b.corner.style.fill = `var(--wb-mark-${mark})`;
      b.corner.textContent = sign;
    }
    const alive = new Set([...this.boxes.values()].filter((b) => !b.hidden).map((b) => b.cluster));
    for (const [key, c] of this.clusters) {
      const mark = (c.merged || []).includes(step) ? "merged" : c.mark || "stub";
      const [dashes, sign] = marks[mark];
      c.g.style.display = alive.has(key) ? "" : "none";
      c.frame.style.stroke = `var(--wb-mark-${mark})`;
      c.frame.setAttribute("stroke-dasharray", dashes);
      c.frame.setAttribute("stroke-width", sign ? 2.2 : 1);
      c.label_at.textContent = `${sign} ${c.label}`.trim();
    }
    for (const e of this.edges) {
      const gone = [e.from, e.to].some((k) => this.boxes.get(k)?.hidden);
      e.g.style.display = gone ? "none" : "";
    }
    this.map.draw();
  }

  neighbour(key, direction) {
    const edges = this.edges.filter((e) => (direction < 0 ? e.to === key : e.from === key));
    return edges.length ? (direction < 0 ? edges[0].from : edges[0].to) : null;
  }
}
