// The theme of the page, light or dark. Notebooks set it in different ways, but all of them by the colour of text.

const brightness = (colour) => {
  const parts = (colour.match(/[\d.]+/g) || [0, 0, 0]).slice(0, 3).map(Number);
  return parts.reduce((sum, part) => sum + part, 0) / 3 / (colour.startsWith("color(") ? 1 : 255);
};

// Keep `data-theme` of a view up to date; the returned function ends that.
const followTheme = (host, root, act = () => {}) => {
  const probe = element("span", { style: "display: none; color: var(--jp-ui-font-color1, CanvasText)" });
  host.append(probe);
  const look = () => {
    const theme = brightness(getComputedStyle(probe).color) > 0.5 ? "dark" : "light";
    if (root.dataset.theme === theme) return;
    root.dataset.theme = theme;
    act(theme);
  };
  const soon = () => { look(); setTimeout(look, 100); };
  const observer = new MutationObserver(soon);
  for (const node of [document.documentElement, document.body]) observer.observe(node, { attributes: true });
  const media = window.matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", soon);
  look();
  requestAnimationFrame(look);
  return () => { observer.disconnect(); media.removeEventListener("change", soon); probe.remove(); };
};
