// A box that filters the rows of all tables of a page by words, verdict and rule set; the page marks its place.
document.addEventListener("DOMContentLoaded", () => {
  const place = document.querySelector("div.filter");
  if (!place) return;
  const sections = [...document.querySelectorAll("article section section")].map((section) => ({
    section,
    // What a set leaves out stands in brackets.
    sets: [...section.querySelectorAll(":scope > p")].map((p) => p.textContent).join().replace(/\(.*?\)/g, "")
      .replace("Rule sets:", "").replace(/\.\s*$/, "").split(",").map((name) => name.trim()),
    rows: [...section.querySelectorAll("tbody tr")].map((row) => ({
      row, text: row.textContent.toLowerCase(), verdict: row.cells[1].textContent,
    })),
  }));
  const rows = sections.flatMap((part) => part.rows);
  const menu = (name, names) => {
    const made = document.createElement("select");
    made.ariaLabel = name;
    for (const text of [`every ${name}`, ...new Set(names)]) made.add(new Option(text));
    return made;
  };
  const box = Object.assign(document.createElement("input"), {
    type: "search", placeholder: "words of a name or a law, such as conv add", ariaLabel: "filter rules",
  });
  const verdict = menu("verdict", rows.map((row) => row.verdict));
  const set = menu("set", ["default", ...sections.flatMap((part) => part.sets)]);
  const count = document.createElement("output");
  const show = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const part of sections) {
      const open = !set.selectedIndex || part.sets.includes(set.value);
      let here = 0;
      for (const { row, text, verdict: known } of part.rows) {
        row.hidden = !(open && words.every((word) => text.includes(word))
          && (!verdict.selectedIndex || known === verdict.value));
        here += !row.hidden;
      }
      part.section.hidden = !here;
      shown += here;
    }
    count.textContent = `${shown} of ${rows.length} rules`;
  };
  for (const part of [box, verdict, set]) part.addEventListener("input", show);
  place.append(box, verdict, set, count);
  show();
});
