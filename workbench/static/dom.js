// Functions with which every view draws; this file precedes the view's own module.

const SVG = "http://www.w3.org/2000/svg";

const element = (name, attributes = {}, ...children) => {
  const made = name.startsWith("svg:")
    ? document.createElementNS(SVG, name.slice(4))
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
};

// Packed data are deflated JSON in base64.
const unpack = async (packed) => {
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
};

const button = (text, name, action) =>
  element("button", { type: "button", title: name, "aria-label": name, onclick: action }, text);

