// The rule browser: a table with filters and sorting, and a card of the selected rule.
// A plain module without framework or network access. All content is in the data; the cards, which are many and similar, are packed.

const steps = (rule) => (rule.first === null ? "" : rule.first === rule.last ? `${rule.first}` : `${rule.first}–${rule.last}`);

// The engine counts whole milliseconds: a rule that fired with a sum of 0 took less than one each time.
const milliseconds = (rule) => (!rule.firings.length ? "" : rule.ms ? `${rule.ms}` : "<1");

// name, text, value to sort by, whether it is a number
const PLAIN = [
  ["rule", (r) => r.name, (r) => r.name, false],
  ["verdict", (r) => r.verdict, (r) => r.verdict, false],
  ["tags", (r) => r.tags.join(", "), (r) => r.tags.join(), false],
  ["law", (r) => r.law, (r) => r.law, false],
];
const FIRED = [
  PLAIN[0],
  PLAIN[1],
  ["matches", (r) => (r.firings.length ? `${r.matches}` : ""), (r) => r.matches, true],
  ["e-nodes", (r) => (r.made ? `${r.made}` : ""), (r) => r.made, true],
  ["ms", (r) => milliseconds(r), (r) => r.ms, true],
  ["steps", steps, (r) => r.first ?? -1, true],
  ["in best", (r) => (r.given ? `${r.given}` : ""), (r) => r.given, true],
];
const WITHOUT = ["without it", (r) => r.change, (r) => r.without ?? -1, true];

// The activity of a rule by step: bars of its matches, with the number of new e-nodes above them.
const bars = (rule) => {
  const last = rule.firings[rule.firings.length - 1][0];
  const top = Math.max(1, ...rule.firings.map((f) => f[1]));
  const wide = Math.min(48, 380 / (last + 1));
  const svg = element("svg:svg", { viewBox: "0 0 420 96", class: "wb-bars", role: "img", "aria-label": "matches by step" });
  svg.append(element("svg:line", { x1: 10, x2: 410, y1: 76, y2: 76, class: "wb-base" }));
  for (const [step, matches, made, ms] of rule.firings) {
    const height = matches ? Math.max(2, 54 * (matches / top)) : 0;
    const x = 14 + step * wide;
    const bar = element("svg:rect", { x, y: 76 - height, width: Math.max(2, wide - 4), height, class: "wb-bar" });
    bar.append(element("svg:title", {}, `step ${step}: ${matches} matches, ${made} e-nodes, ${ms} ms`));
    svg.append(bar, element("svg:text", { x: x + wide / 2 - 2, y: 72 - height, "text-anchor": "middle" }, made ? `${matches} → ${made}` : `${matches}`));
  }
  for (let step = 0; step <= last; step += Math.ceil((last + 1) / 12)) {
    svg.append(element("svg:text", { x: 14 + step * wide + wide / 2 - 2, y: 90, "text-anchor": "middle" }, `${step}`));
  }
  return svg;
};

function render({ model, el }) {
  let cards = {};
  let order = null;
  let shown = [];

  const text = element("input", { type: "search", placeholder: "filter: name, law, tag, provenance", "aria-label": "filter rules" });
  const verdict = element("select", { "aria-label": "verdict" });
  const activity = element("select", { "aria-label": "activity" });
  const count = element("span", { class: "wb-count", "aria-live": "polite" });
  const heading = element("div", { class: "wb-heading" });
  const summary = element("div", { class: "wb-summary" });
  const list = element("div", { class: "wb-list" });
  const card = element("div", { class: "wb-card", "aria-live": "polite" });
  const root = element("div", { class: "wb wb-rules" }, heading, summary,
    element("div", { class: "wb-filters" }, text, verdict, activity, count), element("div", { class: "wb-body" }, list, card));

  const columns = () => {
    const data = model.get("data");
    return data.run ? [...FIRED, ...(data.tried ? [WITHOUT] : [])] : PLAIN;
  };
  const put = (name, value) => {
    model.set(name, value);
    model.save_changes();
  };
  const matching = (rule) => {
    const words = model.get("query").toLowerCase().split(/\s+/).filter(Boolean);
    const hay = [rule.name, rule.law, rule.verdict, ...rule.tags, ...rule.provenance].join(" ").toLowerCase();
    const kind = model.get("activity");
    return words.every((w) => hay.includes(w))
      && (!model.get("verdict") || rule.verdict === model.get("verdict"))
      && (!kind || (kind === "fired" ? rule.firings.length > 0 : kind === "idle" ? !rule.firings.length : rule.given > 0));
  };

  const choose = (name, focus) => {
    if (name !== model.get("selected")) put("selected", name);
    mark(focus);
    showCard();
  };
  const mark = (focus) => {
    const chosen = model.get("selected");
    const rows = [...list.querySelectorAll("tbody tr")];
    const there = rows.some((r) => r.dataset.name === chosen);
    rows.forEach((row, i) => {
      const on = row.dataset.name === chosen;
      row.setAttribute("aria-selected", `${on}`);
      row.tabIndex = on || (!there && i === 0) ? 0 : -1;
      if (on && focus) {
        row.focus({ preventScroll: true });
        // Scroll the row below the fixed heading, without moving the page.
        const above = row.offsetTop - list.querySelector("thead").offsetHeight;
        if (above < list.scrollTop) list.scrollTop = above;
        else if (row.offsetTop + row.offsetHeight > list.scrollTop + list.clientHeight)
          list.scrollTop = row.offsetTop + row.offsetHeight - list.clientHeight;
      }
    });
  };

  const showList = () => {
    const data = model.get("data");
    shown = data.rules.filter(matching);
    const cols = columns();
    if (order) {
      const [name, down] = order;
      const value = cols.find((c) => c[0] === name)?.[2];
      if (value) {
        shown.sort((a, b) => {
          const [x, y] = [value(a), value(b)];
          return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
        });
      }
    }
    count.textContent = `${shown.length} of ${data.rules.length} rules`;
    const head = element("tr", {}, ...cols.map(([name, , , number]) => {
      const mine = order && order[0] === name;
      const button = element("button", { type: "button", title: `sort by ${name}`, onclick: () => {
        order = [name, mine ? !order[1] : number];
        showList();
        [...list.querySelectorAll("thead button")].find((b) => b.title === `sort by ${name}`)?.focus();
      } }, name + (mine ? (order[1] ? " ▾" : " ▴") : ""));
      return element("th", { scope: "col", "aria-sort": mine ? (order[1] ? "descending" : "ascending") : "none" }, button);
    }));
    const body = element("tbody", {}, ...shown.map((rule) => {
      const row = element("tr", { "data-name": rule.name, onclick: () => choose(rule.name, true) });
      for (const [name, show, , number] of cols) {
        const kind = number ? "wb-number" : name === "law" ? "wb-law" : name === "rule" ? "wb-name" : "";
        const cell = element("td", { class: kind, title: name === "law" ? rule.law : null });
        if (name === "verdict") cell.append(element("span", { class: `wb-verdict wb-${rule.verdict}` }, rule.verdict));
        else cell.textContent = show(rule);
        row.append(cell);
      }
      return row;
    }));
    list.replaceChildren(element("table", { "aria-label": "rules" }, element("thead", {}, head), body));
    if (!shown.length) list.append(element("div", { class: "wb-empty" }, "no rule matches the filter"));
    mark(false);
  };

  const showCard = () => {
    const rule = model.get("data").rules.find((r) => r.name === model.get("selected"));
    card.replaceChildren();
    if (!rule) return card.append(element("div", { class: "wb-empty" }, "select a rule"));
    const more = cards[rule.name] || {};
    card.append(element("h4", {}, rule.name), element("pre", {}, more.text || rule.law));
    const svg = more.drawing;
    if (svg) {
      const source = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
      card.append(element("div", { class: "wb-drawing" }, element("img", { src: source, alt: `${rule.name}: both sides as graphs` })));
    }
    const known = [["evidence", more.evidence], ["tags", rule.tags.join(", ")], ["provenance", rule.provenance.join(", ")],
      ["defined in", more.place], ["in the best graph", more.gave], ["best cost without it", more.loss]];
    const rows = known.filter(([, v]) => v).map(([k, v]) => element("tr", {}, element("th", { scope: "row" }, k), element("td", {}, v)));
    rows.unshift(element("tr", {}, element("th", { scope: "row" }, "verdict"),
      element("td", {}, element("span", { class: `wb-verdict wb-${rule.verdict}` }, rule.verdict))));
    card.append(element("table", {}, element("tbody", {}, ...rows)));
    if (more.counterexample) card.append(element("div", {}, "smallest counterexample"), element("pre", {}, more.counterexample));
    if (rule.firings.length) {
      card.append(element("div", {}, `fired in ${rule.firings.length === 1 ? "step" : "steps"} ${rule.firings.map((f) => f[0]).join(", ")}: matches → e-nodes`), bars(rule));
    } else if (model.get("data").run) card.append(element("div", { class: "wb-empty" }, `did not fire in ${model.get("data").run}`));
  };

  list.addEventListener("keydown", (event) => {
    const row = event.target.closest("tbody tr");
    if (!row) return;
    const at = shown.findIndex((r) => r.name === row.dataset.name);
    const moves = { ArrowUp: at - 1, ArrowDown: at + 1, PageUp: at - 12, PageDown: at + 12, Home: 0, End: shown.length - 1, Enter: at, " ": at };
    if (event.key === "/") text.focus();
    else if (event.key in moves) choose(shown[Math.min(shown.length - 1, Math.max(0, moves[event.key]))].name, true);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  text.addEventListener("input", () => {
    put("query", text.value);
    showList();
  });
  text.addEventListener("keydown", (event) => {
    // Keys typed into a field must not trigger the notebook's own shortcuts.
    event.stopPropagation();
    if (event.key === "Escape" && text.value) {
      text.value = "";
      put("query", "");
      showList();
    } else if (event.key === "ArrowDown" && shown.length) {
      event.preventDefault();
      choose((shown.find((r) => r.name === model.get("selected")) ?? shown[0]).name, true);
    }
  });
  for (const [field, name] of [[verdict, "verdict"], [activity, "activity"]]) {
    field.addEventListener("change", () => {
      put(name, field.value);
      showList();
    });
  }

  const filters = () => {
    text.value = model.get("query");
    verdict.value = model.get("verdict");
    activity.value = model.get("activity");
    showList();
  };
  const rebuild = () => {
    const data = model.get("data");
    heading.textContent = data.title;
    summary.textContent = data.summary;
    order = data.run ? ["matches", true] : null;
    const kinds = [...new Set(data.rules.map((r) => r.verdict))].sort();
    verdict.replaceChildren(element("option", { value: "" }, "every verdict"), ...kinds.map((k) => element("option", { value: k }, k)));
    activity.replaceChildren(...[["", "fired or not"], ["fired", "fired"], ["idle", "did not fire"], ["best", "made the best graph"]]
      .map(([value, name]) => element("option", { value }, name)));
    activity.style.display = data.run ? "" : "none";
    filters();
    showCard();
    unpack(data.cards).then((found) => {
      cards = found;
      showCard();
    });
  };
  model.on("change:data", rebuild);
  model.on("change:query change:verdict change:activity", filters);
  model.on("change:selected", () => {
    mark(false);
    showCard();
  });
  el.append(root);
  const unfollow = followTheme(el, root);
  rebuild();
  return unfollow;
}

export default { render };
