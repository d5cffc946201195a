// A picture as a file: the drawing of a pane as SVG with all colours written out, or as PNG.

const DRAWING_STYLE = "text{font:11px Helvetica,Arial,sans-serif;text-anchor:middle;fill:var(--wb-ink)}" +
  ".wb-sign{font-weight:bold;font-size:13px}.wb-cluster{fill:var(--wb-frame)}" +
  ".wb-cluster-label{text-anchor:start;font-size:10px;fill:var(--wb-soft)}.wb-edge{fill:none;stroke:var(--wb-edge);stroke-width:1}" +
  ".wb-edge.wb-bold{stroke:var(--wb-heavy);stroke-width:2.2}.wb-arrow{fill:var(--wb-edge)}";

const drawingOf = (pane) => {
  const [width, height] = pane.level.size.map((side) => Math.ceil(side + 16));
  const copy = pane.layer.cloneNode(true);
  copy.setAttribute("transform", "translate(8 8)");
  for (const hidden of [...copy.querySelectorAll("*")].filter((part) => part.style.display === "none")) hidden.remove();
  for (const part of copy.querySelectorAll("[tabindex]")) part.removeAttribute("tabindex");
  const whole = element("svg:svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}` },
    element("svg:style", {}, DRAWING_STYLE), pane.arrow.cloneNode(true),
    element("svg:rect", { width: "100%", height: "100%", style: "fill:var(--wb-paper)" }), copy);
  const colours = getComputedStyle(pane.svg);
  // The viewer's own variables are of its theme; a file has no theme.
  const text = new XMLSerializer().serializeToString(whole);
  return { text: text.replace(/var\((--wb-[\w-]*)\)/g, (_, name) => pane.viewer.colour(name) || colours.getPropertyValue(name) || "#888"), width, height };
};

const save = (blob, name) => {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
};

const fileName = (pane, ending) => `${pane.spec.title.split(":")[0].replace(/[^\w.-]+/g, "-") || "picture"}.${ending}`;

const saveSvg = (pane) => save(new Blob([drawingOf(pane).text], { type: "image/svg+xml" }), fileName(pane, "svg"));

const savePng = (pane) => {
  const { text, width, height } = drawingOf(pane);
  // Browsers refuse a canvas of more pixels than this.
  const scale = Math.min(2, 8000 / width, 8000 / height);
  const image = new Image();
  image.onload = () => {
    const canvas = element("canvas", { width: Math.round(width * scale), height: Math.round(height * scale) });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(blob, fileName(pane, "png")), "image/png");
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
};
