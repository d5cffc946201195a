// A static face, unchanged: tables, pictures, parts that open.

function render({ model, el }) {
  const root = document.createElement("div");
  root.className = "wb wb-static";
  root.innerHTML = model.get("html");
  el.append(root);
  return followTheme(el, root);
}

export default { render };
