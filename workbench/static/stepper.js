// The stepper of every stepwise object: a slider, keys, play, and plots whose cursor follows the step.
// A plain module without framework or network access. Charts come as data; the state is one number, `step`.

const WIDTH = 460, HEIGHT = 210, LEFT = 56, RIGHT = 14, TOP = 26, BOTTOM = 34;
const DASHES = { solid: "", dashed: "6 4", dotted: "2 3" };
const INTERVAL = 500;

const short = (x) => {
  const size = Math.abs(x);
  if (size >= 1e6) return `${+(x / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return `${+(x / 1e3).toPrecision(3)}k`;
  return `${+x.toPrecision(4)}`;
};

// Round numbers that divide an interval into about five parts.
const ticks = (low, high) => {
  const raw = (high - low) / 5 || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const size = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const found = [];
  for (let t = Math.ceil(low / size) * size; t <= high + 1e-9 * size; t += size) found.push(t);
  return found;
};

const powers = (low, high) => {
  const found = [];
  for (let p = Math.floor(Math.log10(low)); 10 ** p <= high * 1.0001; p++) if (10 ** p >= low * 0.9999) found.push(10 ** p);
  return found.length > 1 ? found : [low, high];
};

class Chart {
  constructor(spec, count, choose) {
    this.spec = spec;
    this.count = Math.max(1, count);
    this.choose = choose;
    this.height = spec.kind === "heat" ? TOP + BOTTOM + 16 * spec.rows.length : HEIGHT;
    this.left = spec.kind === "heat" ? 190 : LEFT;
    this.svg = element("svg:svg", {
      viewBox: `0 0 ${WIDTH} ${this.height}`, class: "wb-chart", role: "img", "aria-label": spec.title,
    });
    this.svg.append(element("svg:text", { x: 4, y: 15, class: "wb-title" }, spec.title));
    this.cursor = element("svg:rect", { y: TOP, height: this.height - TOP - BOTTOM, class: "wb-cursor" });
    this.svg.append(this.cursor);
    spec.kind === "heat" ? this.heat() : this.lines();
    this.axis();
    this.svg.addEventListener("click", (event) => this.clicked(event));
  }

  x(i) {
    const span = WIDTH - this.left - RIGHT;
    if (this.spec.kind === "heat") return this.left + (span * i) / this.count;
    return this.left + (this.count > 1 ? (span * i) / (this.count - 1) : span / 2);
  }

  clicked(event) {
    const box = this.svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * WIDTH - this.left;
    const part = at / (WIDTH - this.left - RIGHT);
    const step = this.spec.kind === "heat" ? Math.floor(part * this.count) : Math.round(part * (this.count - 1));
    this.choose(Math.min(this.count - 1, Math.max(0, step)));
  }

  scale() {
    const values = this.spec.series.flatMap((s) => s.values).filter((v) => v !== null);
    const lines = (this.spec.limits || []).map((l) => l.value);
    let low = Math.min(...values, ...(this.spec.zero ? [0] : []));
    let high = Math.max(...values, ...lines.filter((l) => !this.spec.log || l));
    if (!(high > low)) high = low + (Math.abs(low) || 1);
    if (this.spec.log) {
      low = Math.max(low, 1);
      const span = Math.log(high / low) || 1;
      return [low, high, (v) => Math.log(Math.max(v, low) / low) / span];
    }
    const margin = 0.06 * (high - low);
    [low, high] = [this.spec.zero ? low : low - margin, high + margin];
    return [low, high, (v) => (v - low) / (high - low)];
  }

  lines() {
    const [low, high, part] = this.scale();
    const y = (v) => this.height - BOTTOM - part(v) * (this.height - TOP - BOTTOM);
    for (const t of this.spec.log ? powers(low, high) : ticks(low, high)) {
      this.svg.append(
        element("svg:line", { x1: this.left, x2: WIDTH - RIGHT, y1: y(t), y2: y(t), class: "wb-grid" }),
        element("svg:text", { x: this.left - 5, y: y(t) + 3, class: "wb-tick", "text-anchor": "end" }, short(t)),
      );
    }
    for (const limit of this.spec.limits || []) {
      const at = y(limit.value);
      this.svg.append(
        element("svg:line", { x1: this.left, x2: WIDTH - RIGHT, y1: at, y2: at, class: "wb-limit" }),
        element("svg:text", { x: WIDTH - RIGHT, y: at - 3, class: "wb-tick", "text-anchor": "end" }, limit.name),
      );
    }
    this.marks = [];
    const apart = Math.min(120, (WIDTH - this.left - 40) / this.spec.series.length);
    this.spec.series.forEach((series, k) => {
      const points = series.values.map((v, i) => [i, v]).filter(([, v]) => v !== null);
      let path = "";
      points.forEach(([i, v], n) => {
        if (n && this.spec.steps) path += `H${this.x(i)}`;
        path += `${n ? "L" : "M"}${this.x(i)} ${y(v)}`;
      });
      this.svg.append(
        element("svg:path", { d: path, class: `wb-line wb-colour-${k}`, "stroke-dasharray": DASHES[series.dash || "solid"] }),
        element("svg:line", { x1: this.left + 8 + apart * k, x2: this.left + 30 + apart * k, y1: this.height - 6, y2: this.height - 6,
          class: `wb-line wb-colour-${k}`, "stroke-dasharray": DASHES[series.dash || "solid"] }),
        element("svg:text", { x: this.left + 35 + apart * k, y: this.height - 3, class: "wb-tick" }, series.name),
      );
      const mark = element("svg:circle", { r: 4, class: `wb-mark wb-colour-${k}` });
      this.svg.append(mark);
      this.marks.push((step) => {
        const v = series.values[step];
        mark.setAttribute("visibility", v === null || v === undefined ? "hidden" : "visible");
        if (v !== null && v !== undefined) {
          mark.setAttribute("cx", this.x(step));
          mark.setAttribute("cy", y(v));
        }
      });
    });
  }

  heat() {
    this.marks = [];
    const top = Math.max(1, ...this.spec.values.flat());
    const wide = (WIDTH - this.left - RIGHT) / this.count;
    this.spec.rows.forEach((name, r) => {
      const y = TOP + 16 * r;
      this.svg.append(
        element("svg:text", { x: this.left - 5, y: y + 12, class: "wb-tick", "text-anchor": "end" },
          name.length > 30 ? `${name.slice(0, 29)}…` : name, element("svg:title", {}, name)),
      );
      this.spec.values[r].forEach((v, i) => {
        if (!v) return;
        const cell = element("svg:rect", { x: this.x(i) + 0.5, y: y + 1, width: Math.max(1, wide - 1), height: 14,
          class: "wb-cell", "fill-opacity": 0.15 + 0.85 * (Math.log1p(v) / Math.log1p(top)) });
        cell.append(element("svg:title", {}, `${name}, ${this.spec.x} ${i}: ${v} ${this.spec.unit}`));
        this.svg.append(cell);
        if (wide > 26) {
          this.svg.append(element("svg:text", { x: this.x(i) + wide / 2, y: y + 12, class: "wb-count", "text-anchor": "middle" }, short(v)));
        }
      });
    });
    for (const i of this.spec.later || []) {
      this.svg.append(element("svg:rect", { x: this.x(i) + 0.5, y: TOP, width: Math.max(1, wide - 1), height: 16 * this.spec.rows.length, class: "wb-later" },
        element("svg:title", {}, `${this.spec.x} ${i}: ${this.spec.unit} by rule are ${this.spec.when}`)));
    }
    if (this.spec.later?.length) {
      this.svg.append(element("svg:text", { x: 4, y: this.height - 3, class: "wb-tick" }, `dotted: ${this.spec.when}`));
    }
  }

  axis() {
    const every = Math.ceil(this.count / 10);
    const middle = this.spec.kind === "heat" ? (WIDTH - this.left - RIGHT) / this.count / 2 : 0;
    for (let i = 0; i < this.count; i += every) {
      this.svg.append(element("svg:text", { x: this.x(i) + middle, y: this.height - BOTTOM + 13, class: "wb-tick", "text-anchor": "middle" }, `${i}`));
    }
    this.svg.append(element("svg:text", { x: WIDTH - RIGHT, y: this.height - 3, class: "wb-tick", "text-anchor": "end" }, this.spec.x));
  }

  move(step) {
    const wide = this.spec.kind === "heat" ? (WIDTH - this.left - RIGHT) / this.count : 2;
    this.cursor.setAttribute("x", this.spec.kind === "heat" ? this.x(step) : this.x(step) - 1);
    this.cursor.setAttribute("width", wide);
    this.marks.forEach((mark) => mark(step));
  }
}

function render({ model, el }) {
  let timer = null;
  let charts = [];
  const clamp = (step) => Math.min(model.get("data").steps.length - 1, Math.max(0, step));
  const choose = (step) => {
    model.set("step", clamp(step));
    model.save_changes();
    show();
  };
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "play";
    play.setAttribute("aria-label", "play");
  };
  const toggle = () => {
    if (timer) return stop();
    if (model.get("step") >= model.get("data").steps.length - 1) choose(0);
    play.textContent = "halt";
    play.setAttribute("aria-label", "stop playing");
    timer = setInterval(() => {
      if (model.get("step") >= model.get("data").steps.length - 1) return stop();
      choose(model.get("step") + 1);
    }, INTERVAL);
  };
  const play = button("play", "play", toggle);
  const slider = element("input", { type: "range", min: 0, "aria-label": "step", oninput: () => choose(+slider.value) });
  const label = element("div", { class: "wb-label", "aria-live": "polite" });
  const heading = element("div", { class: "wb-heading" });
  const plots = element("div", { class: "wb-charts" });
  const table = element("div", { class: "wb-table" });
  const status = element("span", { class: "wb-status", role: "status" });
  const controls = element("div", { class: "wb-controls" },
    button("|◀", "first step", () => choose(0)), button("◀", "step back", () => choose(model.get("step") - 1)), play,
    button("▶", "step on", () => choose(model.get("step") + 1)), button("▶|", "last step", () => choose(Infinity)), slider, status);
  const question = element("input", { type: "text", class: "wb-question", "aria-label": "why not", placeholder: "why not … (a term, a rule, or a == b)" });
  const answer = element("div", { class: "wb-answer", "aria-live": "polite" });
  const asking = element("div", { class: "wb-asking" }, question, answer);
  question.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key !== "Enter" || !question.value.trim()) return;
    answer.textContent = "asking …";
    model.send({ command: "ask", question: question.value });
  });
  const root = element("div", { class: "wb wb-stepper", tabindex: 0 }, heading, controls, label, plots, table, asking);
  root.addEventListener("keydown", (event) => {
    const inside = event.target === slider || event.target === root;
    const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 };
    if (event.key in moves && inside) choose(model.get("step") + moves[event.key]);
    else if (event.key === "Home") choose(0);
    else if (event.key === "End") choose(Infinity);
    else if (event.key === " " && event.target.tagName !== "BUTTON") toggle();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  const rebuild = () => {
    const data = model.get("data");
    heading.textContent = data.title;
    charts = data.steps.length ? data.charts.map((spec) => new Chart(spec, data.steps.length, choose)) : [];
    plots.replaceChildren(...charts.map((c) => c.svg));
    slider.max = Math.max(0, data.steps.length - 1);
    show();
  };
  const show = () => {
    const data = model.get("data");
    const step = clamp(model.get("step"));
    slider.value = Math.max(0, step);
    const record = data.steps[step];
    label.textContent = record ? record.label : "no step yet";
    charts.forEach((chart) => chart.move(step));
    table.replaceChildren();
    if (record && record.rows.length) {
      const row = (cells, kind) => element("tr", {}, ...cells.map((c) => element(kind, {}, `${c}`)));
      table.append(element("table", {}, element("thead", {}, row(data.columns, "th")), element("tbody", {}, ...record.rows.map((r) => row(r, "td")))));
      if (record.more) table.append(element("p", {}, `${record.more} more`));
    }
  };
  const state = () => {
    status.textContent = model.get("status") || "";
    asking.style.display = model.get("answers") ? "" : "none";
  };
  // The kernel escapes what it puts into the answer. It empties the answer before it thinks, so that the same
  // answer to a second question is a change, too.
  const answered = () => { if (model.get("answer")) answer.innerHTML = model.get("answer"); };
  model.on("change:data", rebuild);
  model.on("change:step", show);
  model.on("change:status change:answers", state);
  model.on("change:answer", answered);
  rebuild();
  state();
  answered();
  el.append(root);
  const unfollow = followTheme(el, root);
  return () => { clearInterval(timer); unfollow(); };
}

export default { render };
