// A small map of a picture that is larger than its pane: a frame shows the visible part, a click moves there.

const MAP_WIDTH = 150, MAP_HEIGHT = 96;

class Minimap {
  constructor(pane) {
    this.pane = pane;
    this.boxes = element("svg:path", { class: "wb-map-boxes" });
    this.frame = element("svg:rect", { class: "wb-map-frame" });
    this.svg = element("svg:svg", { class: "wb-map", role: "img", "aria-label": "map of the whole picture" }, this.boxes, this.frame);
    this.svg.addEventListener("pointerdown", (event) => this.grab(event));
  }

  draw() {
    const [width, height] = this.pane.level.size;
    this.scale = Math.min(MAP_WIDTH / width, MAP_HEIGHT / height);
    this.svg.setAttribute("width", width * this.scale);
    this.svg.setAttribute("height", height * this.scale);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const shown = [...this.pane.boxes.values()].filter((b) => !b.hidden);
    this.boxes.setAttribute("d", shown.map(({ at: [x, y, w, h] }) => `M${x} ${y}h${w}v${h}h${-w}z`).join(""));
  }

  place() {
    const { x, y, k } = this.pane;
    const [width, height] = this.pane.level.size;
    const [w, h] = this.pane.size();
    const whole = x >= 0 && y >= 0 && x + width * k <= w && y + height * k <= h;
    this.svg.style.display = whole ? "none" : "";
    for (const [name, value] of Object.entries({ x: -x / k, y: -y / k, width: w / k, height: h / k })) this.frame.setAttribute(name, value);
    this.frame.setAttribute("stroke-width", 1.5 / this.scale);
  }

  grab(event) {
    event.preventDefault();
    event.stopPropagation();
    const go = (e) => {
      const box = this.svg.getBoundingClientRect();
      this.pane.moveTo((e.clientX - box.left) / this.scale, (e.clientY - box.top) / this.scale);
    };
    const drop = () => { window.removeEventListener("pointermove", go); window.removeEventListener("pointerup", drop); };
    window.addEventListener("pointermove", go);
    window.addEventListener("pointerup", drop);
    go(event);
  }
}
