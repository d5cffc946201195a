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

const button = (text, name, action) =>
  element("button", { type: "button", title: name, "aria-label": name, onclick: action }, text);

