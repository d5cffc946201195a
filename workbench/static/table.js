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
