// Stored runs: pick studies and methods, plot any two figures, compare two sets, step through a trace.
// A plain module without framework or network access. All content is in the data; traces are unpacked here.
// `stepper` is the stepper's render function, and `Model` a model without a kernel.

const MARKS = ["circle", "square", "triangle", "diamond"];
const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#8C8C8C"];
const MOST_ROWS = 400, MOST_LINES = 60, WIDE = 760;

const known = (value) => value !== null && value !== undefined;

const brief = (x) => {
  if (!known(x)) return "";
  const size = Math.abs(x);
  if (size >= 1e6) return `${+(x / 1e6).toPrecision(4)}M`;
  return size >= 1e4 ? `${Math.round(x)}` : `${+x.toPrecision(4)}`;
};

const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
const geometric = (values) => Math.exp(mean(values.map(Math.log)));

// Round numbers that divide an interval into about five parts; for logarithms, 1, 2 and 5 times powers of ten.
const marksOf = (low, high, log) => {
  const found = [];
  if (log) {
    for (let p = Math.floor(Math.log10(low)); 10 ** p <= high; p++) found.push(...[1, 2, 5].map((m) => m * 10 ** p));
    const inside = found.filter((t) => t >= low * 0.999 && t <= high * 1.001);
    return inside.length > 8 ? inside.filter((t) => /^1(0*|e.*)$/.test(String(t)) || /^0\.0*1$/.test(String(t))) : inside;
  }
  const raw = (high - low) / 5 || 1, power = 10 ** Math.floor(Math.log10(raw));
  const size = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  for (let t = Math.ceil(low / size) * size; t <= high + 1e-9 * size; t += size) found.push(+t.toPrecision(12));
  return found;
};

const drawn = (shape, x, y, attributes) => {
  const at = { circle: `M${x - 4} ${y}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0`, square: `M${x - 3.5} ${y - 3.5}h7v7h-7z`,
    triangle: `M${x} ${y - 4.5}l4.5 8h-9z`, diamond: `M${x} ${y - 5}l5 5l-5 5l-5 -5z` };
  return element("svg:path", { d: at[shape], ...attributes });
};

function render({ model, el }) {
  const data = model.get("data");
  const measures = data.measures;
  const series = [...new Map(data.runs.map((r) => [`${r.study} / ${r.method}`, { study: r.study, method: r.method }])).entries()]
    .map(([key, parts]) => ({ key, ...parts }));
  const keyOf = (run) => `${run.study} / ${run.method}`;
  let order = null;
  if (!measures.some((m) => m.key === model.get("across"))) model.set("across", measures[0].key);
  if (!["network", ...measures.map((m) => m.key)].includes(model.get("up"))) model.set("up", "network");

  const put = (values) => {
    for (const [name, value] of Object.entries(values)) model.set(name, value);
    model.save_changes();
    show();
  };
  const select = (label, options, name) =>
    element("select", { "aria-label": label, onchange: (e) => put({ [name]: e.target.value }) },
      ...options.map(([value, text]) => element("option", { value }, text)));

  const query = element("input", { type: "search", placeholder: "filter: network, method, status", "aria-label": "filter runs",
    oninput: (e) => put({ query: e.target.value }) });
  const names = measures.map((m) => [m.key, m.name]);
  const across = select("across", names, "across");
  const up = select("up", [["network", "network"], ...names], "up");
  const log = element("input", { type: "checkbox", "aria-label": "logarithmic", onchange: (e) => put({ log: e.target.checked }) });
  const first = select("A", [["", "—"], ...series.map((s) => [s.key, s.key])], "first");
  const second = select("B", [["", "—"], ...series.map((s) => [s.key, s.key])], "second");
  const list = element("div", { class: "wb-studies" });
  const plot = element("div", { class: "wb-plot" });
  const note = element("div", { class: "wb-note", "aria-live": "polite" });
  const against = element("div", { class: "wb-against" });
  const count = element("div", { class: "wb-note", "aria-live": "polite" });
  const table = element("div", { class: "wb-listed" });
  const card = element("div", { class: "wb-card" });
  const skipped = data.skipped.length
    ? [element("details", {}, element("summary", {}, `${data.skipped.length} files were skipped`),
        element("ul", {}, ...data.skipped.map((line) => element("li", {}, line))))]
    : [];
  const title = (text) => element("div", { class: "wb-title" }, text);
  const root = element("div", { class: "wb wb-runs" },
    element("div", { class: "wb-heading" }, data.title), ...skipped,
    element("div", { class: "wb-body" },
      element("div", { class: "wb-side" }, title("Studies and methods"), list),
      element("div", { class: "wb-main" },
        element("div", { class: "wb-controls" }, element("label", {}, "across ", across), element("label", {}, "up ", up),
          element("label", {}, log, " logarithmic"), query),
        plot, note, title("Compare"),
        element("div", { class: "wb-controls" }, element("label", {}, "A ", first), element("label", {}, "B ", second)), against,
        title("Runs"), count, table, card)));
  el.append(root);
  followTheme(el, root);

  const chosen = () => new Set(model.get("chosen"));
  const shown = () => {
    const keys = chosen();
    const words = model.get("query").toLowerCase().split(/\s+/).filter(Boolean);
    return data.runs.map((run, index) => ({ ...run, index })).filter((run) => keys.has(keyOf(run)) &&
      words.every((w) => `${run.study} ${run.network} ${run.method} ${run.status}`.toLowerCase().includes(w)));
  };
  const value = (run, key) => run.values[measures.findIndex((m) => m.key === key)];
  const styleOf = (keys) => new Map([...keys].map((key, i) =>
    [key, { colour: COLOURS[i % COLOURS.length], mark: MARKS[Math.floor(i / COLOURS.length) % MARKS.length] }]));

  const choose = (keys, on) => {
    const now = chosen();
    for (const key of keys) on ? now.add(key) : now.delete(key);
    const runs = data.runs.filter((r) => now.has(keyOf(r)));
    const figures = [model.get("across"), ...measures.map((m) => m.key)];
    // A figure that no chosen run has is left for the first one that some have.
    const across = figures.find((key) => runs.some((r) => known(value(r, key)))) || model.get("across");
    put({ chosen: series.map((s) => s.key).filter((key) => now.has(key)), across });
  };
  const pick = (index) => put({ selected: index });

  const drawStudies = (styles) => {
    const now = chosen();
    const open = new Set([...list.querySelectorAll("details[open]")].map((d) => d.dataset.study));
    list.replaceChildren(...[...new Set(series.map((s) => s.study))].map((study) => {
      const own = series.filter((s) => s.study === study);
      const some = own.filter((s) => now.has(s.key)).length;
      const all = element("input", { type: "checkbox", "aria-label": study, onchange: (e) => choose(own.map((s) => s.key), e.target.checked) });
      all.checked = some === own.length;
      all.indeterminate = some > 0 && some < own.length;
      const rows = own.map((s) => {
        const box = element("input", { type: "checkbox", "aria-label": s.key, onchange: (e) => choose([s.key], e.target.checked) });
        box.checked = now.has(s.key);
        const style = styles.get(s.key);
        const key = element("svg:svg", { width: 12, height: 12 }, ...(style ? [drawn(style.mark, 6, 6, { fill: style.colour })] : []));
        return element("label", { class: "wb-method" }, box, key, s.method);
      });
      const runs = data.runs.filter((r) => r.study === study).length;
      const part = element("details", { "data-study": study }, element("summary", {}, all, ` ${study} `,
        element("span", { class: "wb-note" }, `${runs}`)), ...rows);
      part.open = open.has(study) || some > 0;
      return part;
    }));
  };

  const drawPlot = (runs, styles) => {
    const x = model.get("across"), y = model.get("up"), wantsLog = model.get("log");
    const byNetwork = y === "network";
    const fits = (v, isLog) => known(v) && (!isLog || v > 0);
    const points = runs.filter((r) => fits(value(r, x), wantsLog) && (byNetwork || fits(value(r, y), wantsLog)));
    const named = (key) => measures.find((m) => m.key === key).name;
    const missing = runs.length - points.length;
    note.textContent = [
      missing ? `${missing} of ${runs.length} runs have no such figure${wantsLog ? " above 0" : ""}` : "",
      ...differences(points, [x, ...(byNetwork ? [] : [y])]),
    ].filter(Boolean).join("; ");
    if (!points.length) {
      plot.replaceChildren(element("p", { class: "wb-note" }, runs.length ? "No run that is chosen has this figure: take another one." : "Choose a study on the left."));
      return;
    }
    const every = [...new Set(points.map((r) => r.network))];
    const lines = every.slice(0, MOST_LINES);
    if (byNetwork && every.length > lines.length) note.textContent += `; ${every.length - lines.length} networks more: filter`;
    const keys = [...styles.keys()].filter((key) => points.some((r) => keyOf(r) === key));
    const step = byNetwork ? 10 + 7 * Math.min(6, keys.length) : 0;
    const left = byNetwork ? Math.min(230, 20 + 6.8 * Math.max(...lines.map((n) => n.length))) : 70;
    const top = 10, height = byNetwork ? step * lines.length : 340, bottom = 46, right = 20;
    const range = (key) => {
      const all = points.map((r) => value(r, key));
      let [low, high] = [Math.min(...all), Math.max(...all)];
      if (!wantsLog) [low, high] = [Math.min(0, low), Math.max(0, high)];
      return low === high ? [wantsLog ? low / 2 : low - 1, wantsLog ? high * 2 : high + 1] : [low, high];
    };
    const scale = ([low, high], from, to) => {
      const f = wantsLog ? Math.log : (v) => v;
      return (v) => from + ((to - from) * (f(v) - f(low))) / (f(high) - f(low));
    };
    const wide = range(x), atX = scale(wide, left + 8, WIDE - right);
    const tall = byNetwork ? null : range(y), atY = byNetwork ? null : scale(tall, top + height - 8, top + 8);
    const svg = element("svg:svg", { viewBox: `0 0 ${WIDE} ${top + height + bottom}`, class: "wb-chart", role: "img",
      "aria-label": `${named(x)} by ${byNetwork ? "network" : named(y)}` });
    for (const t of marksOf(...wide, wantsLog)) {
      svg.append(element("svg:line", { x1: atX(t), x2: atX(t), y1: top, y2: top + height, class: t === 0 ? "wb-zero" : "wb-grid" }),
        element("svg:text", { x: atX(t), y: top + height + 16, "text-anchor": "middle" }, brief(t) || "0"));
    }
    svg.append(element("svg:text", { x: (left + WIDE - right) / 2, y: top + height + 36, "text-anchor": "middle", class: "wb-axis" }, named(x)));
    if (byNetwork) {
      lines.forEach((name, i) => {
        const text = name.length > 31 ? `${name.slice(0, 30)}…` : name;
        svg.append(element("svg:line", { x1: left, x2: WIDE - right, y1: top + step * (i + 1), y2: top + step * (i + 1), class: "wb-grid" }),
          element("svg:text", { x: left - 6, y: top + step * (i + 0.5) + 4, "text-anchor": "end" }, text, element("svg:title", {}, name)));
      });
    } else {
      for (const t of marksOf(...tall, wantsLog)) {
        svg.append(element("svg:line", { x1: left, x2: WIDE - right, y1: atY(t), y2: atY(t), class: t === 0 ? "wb-zero" : "wb-grid" }),
          element("svg:text", { x: left - 6, y: atY(t) + 4, "text-anchor": "end" }, brief(t) || "0"));
      }
      svg.append(element("svg:text", { transform: `translate(14 ${top + height / 2}) rotate(-90)`, "text-anchor": "middle", class: "wb-axis" }, named(y)));
    }
    for (const run of points) {
      const line = lines.indexOf(run.network), at = keys.indexOf(keyOf(run));
      if (byNetwork && line < 0) continue;
      const py = byNetwork ? top + step * line + (step * (at + 0.75)) / (keys.length + 0.5) : atY(value(run, y));
      const style = styles.get(keyOf(run));
      const said = [x, ...(byNetwork ? [] : [y])].map((k) => `${named(k)}: ${brief(value(run, k))}`).join(", ");
      const mark = drawn(style.mark, atX(value(run, x)), py, { fill: style.colour, class: run.index === model.get("selected") ? "wb-mark wb-picked" : "wb-mark",
        onclick: () => pick(run.index) });
      mark.append(element("svg:title", {}, `${run.label} of ${run.study}: ${said}`));
      svg.append(mark);
    }
    plot.replaceChildren(svg);
  };

  // What must not be compared: costs of several sources, seconds of several machines.
  const differences = (runs, keys) => {
    const kinds = new Set(keys.map((key) => measures.find((m) => m.key === key).kind));
    const several = (name) => [...new Set(runs.map((r) => r[name]).filter(Boolean))].length;
    return [
      kinds.has("cost") && several("source") > 1 ? `costs come from ${several("source")} sources: compare within one` : "",
      kinds.has("time") && several("machine") > 1 ? `seconds come from ${several("machine")} machines: compare within one` : "",
    ];
  };

  const drawAgainst = () => {
    const [a, b] = ["first", "second"].map((name) => model.get(name)), key = model.get("across");
    against.replaceChildren();
    if (!a || !b) return;
    const measure = measures.find((m) => m.key === key);
    const of = (which) => {
      const found = new Map();
      for (const run of data.runs) if (keyOf(run) === which && known(value(run, key))) found.set(run.network, [...(found.get(run.network) || []), value(run, key)]);
      return found;
    };
    const [left, right] = [of(a), of(b)];
    const both = [...left.keys()].filter((network) => right.has(network));
    const said = differences(data.runs.filter((r) => [a, b].includes(keyOf(r))), [key]).filter(Boolean);
    if (!both.length) {
      against.append(element("p", { class: "wb-note" }, `A and B have no network in common with a figure for: ${measure.name}`));
      return;
    }
    const rows = both.map((network) => {
      const [p, q] = [mean(left.get(network)), mean(right.get(network))];
      // Percentages of a gain are compared as factors: 20 % against 10 % is 1.2 / 1.1.
      const [from, to] = measure.ratio === "percent" ? [1 + p / 100, 1 + q / 100] : [p, q];
      return [network, p, q, measure.ratio !== "none" && from > 0 && to > 0 ? to / from : null];
    });
    const ratios = rows.map((r) => r[3]).filter(known);
    const line = (cells, kind) => element("tr", {}, ...cells.map((c, i) => element(kind, { class: i ? "wb-number" : null }, c)));
    against.append(element("table", {}, element("thead", {}, line(["network", `A, ${measure.name}`, `B, ${measure.name}`, measure.ratio === "percent" ? "B / A as factors" : measure.ratio === "none" ? "" : "B / A"], "th")),
      element("tbody", {}, ...rows.map(([n, p, q, r]) => line([n, brief(p), brief(q), known(r) ? r.toFixed(3) : ""], "td")),
        ...(ratios.length > 1 && ratios.length === rows.length ? [line([`geometric mean of ${ratios.length}`, "", "", geometric(ratios).toFixed(3)], "td")] : []))));
    const alone = left.size + right.size - 2 * both.length;
    if (alone) said.push(`${alone} networks are in one of the two only`);
    said.push("repeats are averaged");
    against.append(element("p", { class: "wb-note" }, said.join("; ")));
  };

  const drawTable = (runs) => {
    const used = measures.filter((m) => runs.some((r) => known(value(r, m.key))));
    const columns = [["study", (r) => r.study], ["network", (r) => r.network], ["method", (r) => r.method], ["repeat", (r) => r.repeat],
      ["status", (r) => r.status], ...used.map((m) => [m.name, (r) => value(r, m.key), true]), ["steps", (r) => (r.trace ? "▶" : "")]];
    const sorted = [...runs];
    if (order && columns.some((c) => c[0] === order.name)) {
      const get = columns.find((c) => c[0] === order.name)[1];
      sorted.sort((p, q) => {
        const [a, b] = [get(p), get(q)];
        if (!known(a) || !known(b)) return known(a) ? -1 : known(b) ? 1 : 0; // missing figures come last
        return order.sign * (a < b ? -1 : a > b ? 1 : 0);
      });
    }
    const sort = (name) => {
      order = { name, sign: order && order.name === name ? -order.sign : 1 };
      show();
    };
    const head = columns.map(([name]) => element("th", { "aria-sort": order && order.name === name ? (order.sign > 0 ? "ascending" : "descending") : null },
      element("button", { type: "button", onclick: () => sort(name) }, name + (order && order.name === name ? (order.sign > 0 ? " ↑" : " ↓") : ""))));
    const rows = sorted.slice(0, MOST_ROWS).map((run) => element("tr", { tabindex: 0, "aria-selected": `${run.index === model.get("selected")}`,
      onclick: () => pick(run.index), onkeydown: (e) => { if (e.key === "Enter") pick(run.index); } },
      ...columns.map(([, get, isNumber]) => element("td", { class: isNumber ? "wb-number" : null }, isNumber ? brief(get(run)) : `${get(run)}`))));
    count.textContent = `${runs.length} of ${data.runs.length} runs` + (runs.length > MOST_ROWS ? `, the first ${MOST_ROWS} are listed: filter or sort` : "") +
      (runs.some((r) => r.trace) ? "; ▶ has steps: click the row" : "");
    table.replaceChildren(element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)));
  };

  let carded = null;
  const drawCard = async () => {
    const index = model.get("selected");
    if (index === carded) return;
    carded = index;
    const run = data.runs[index];
    card.replaceChildren();
    if (!run) return;
    const facts = element("table", {}, element("tbody", {}, ...run.facts.map(([name, text]) => element("tr", {}, element("th", {}, name), element("td", {}, text)))));
    const steps = element("div", { class: "wb-steps" });
    card.append(title(`${run.label} of ${run.study}`), facts, steps);
    if (!run.trace) {
      steps.append(element("p", { class: "wb-note" }, "Its steps are not stored here: the file trace.parquet is not beside its record."));
      return;
    }
    const found = await unpack(run.trace);
    if (carded === index) stepper({ model: new Model({ data: found, step: 0, running: false, live: false }), el: steps });
  };

  const show = () => {
    for (const [box, name] of [[query, "query"], [across, "across"], [up, "up"], [first, "first"], [second, "second"]]) {
      if (box.value !== model.get(name)) box.value = model.get(name);
    }
    log.checked = model.get("log");
    const styles = styleOf(model.get("chosen")), runs = shown();
    drawStudies(styles);
    drawPlot(runs, styles);
    drawAgainst();
    drawTable(runs);
    drawCard();
  };
  model.on("change:chosen change:query change:across change:up change:log change:first change:second change:selected", show);
  show();
}

export default { render };
