// The map: base stations, workers to drag, and how each is heard under one policy.

import { decibel } from "./numbers.js";

const SVG = "http://www.w3.org/2000/svg";
/** Metres per press of an arrow key, and with Shift. */
const STEP_M = 10;
const FAR_STEP_M = 50;
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
/** A line is faintest at this much under Pmax, dB. */
const FAINT_DB = 40;

function element(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export class CellMap {
  /**
   * @param svg where to draw
   * @param start what the service said of the cell
   * @param actions move(id, x, y, when), remove(id), select(id)
   */
  constructor(svg, start, actions) {
    Object.assign(this, { svg, start, actions, workers: new Map() });
    this.half = start.limits.half_side_m;
    // Drawn as if the cell were 1000 wide, whatever its side: marks keep their size.
    this.unit = 500 / this.half;
    svg.setAttribute("viewBox", "-530 -530 1060 1060");
    this.beams = element("g", { "aria-hidden": "true" });
    this.crowd = element("g");
    svg.replaceChildren(this.ground(), this.beams, this.crowd);
    svg.addEventListener("pointermove", (event) => this.drag(event));
    for (const name of ["pointerup", "pointercancel"]) svg.addEventListener(name, () => this.drop());
  }

  ground() {
    const ground = element("g", { "aria-hidden": "true" });
    ground.append(element("rect", { x: -500, y: -500, width: 1000, height: 1000, class: "circle" }));
    for (const share of [0.4, 0.8]) {
      ground.append(element("circle", { r: 500 * share, class: "circle" }));
      const name = element("text", { y: 500 * share - 24 });
      name.textContent = `${Math.round(share * this.half)} m`;
      ground.append(name);
    }
    for (const { x_m, y_m } of this.start.stations) {
      const at = `translate(${x_m * this.unit} ${-y_m * this.unit})`;
      ground.append(element("path", { d: "M0 -34 L24 26 H-24 Z", class: "station", transform: at }));
    }
    return ground;
  }

  /** Put every worker where the scene has it; `selected` is a worker's number. */
  place(scene, selected) {
    const here = new Set(scene.workers.map((w) => w.id));
    for (const [id, parts] of this.workers) {
      if (here.has(id)) continue;
      parts.group.remove();
      parts.beam.remove();
      this.workers.delete(id);
    }
    for (const worker of scene.workers) {
      const parts = this.workers.get(worker.id) ?? this.appear(worker.id);
      const [x, y] = [worker.x_m * this.unit, -worker.y_m * this.unit];
      parts.group.setAttribute("transform", `translate(${x} ${y})`);
      parts.group.classList.toggle("selected", worker.id === selected);
      const station = this.nearest(worker);
      parts.beam.setAttribute("x1", x);
      parts.beam.setAttribute("y1", y);
      parts.beam.setAttribute("x2", station.x_m * this.unit);
      parts.beam.setAttribute("y2", -station.y_m * this.unit);
      parts.at = `${Math.abs(worker.x_m).toFixed(0)} m ${worker.x_m < 0 ? "west" : "east"}, ` +
        `${Math.abs(worker.y_m).toFixed(0)} m ${worker.y_m < 0 ? "south" : "north"} of the centre`;
      this.say(worker.id, parts);
    }
  }

  /** Show how a policy's row treats the workers of `scene`. */
  hear(scene, row) {
    const pmax = 10 ** (scene.pmax_dbw / 10);
    scene.workers.forEach((worker, i) => {
      const parts = this.workers.get(worker.id);
      if (!parts) return;
      const [power, success] = [row.power_w[i], row.success[i]];
      parts.group.classList.toggle("silent", power === 0);
      parts.ring.setAttribute("stroke", row.colour);
      parts.ring.setAttribute("stroke-dasharray", `${success} 2`);
      parts.ring.style.visibility = power > 0 && success > 0 ? "visible" : "hidden";
      parts.beam.setAttribute("stroke", row.colour);
      const strength = Math.max(0, 1 + decibel(power / pmax) / FAINT_DB);
      parts.beam.setAttribute("stroke-opacity", power > 0 ? 0.1 + 0.8 * strength : 0);
      parts.heard = power > 0 ? `heard with ${(100 * success).toFixed(0)} % by ${row.name}` : `silent under ${row.name}`;
      this.say(worker.id, parts);
    });
  }

  focus(id) {
    this.workers.get(id)?.group.focus();
  }

  say(id, parts) {
    parts.group.setAttribute("aria-label", `Worker ${id + 1}, ${parts.at}${parts.heard ? `, ${parts.heard}` : ""}`);
  }

  nearest(worker) {
    const far = (s) => Math.hypot(s.x_m - worker.x_m, s.y_m - worker.y_m);
    return this.start.stations.reduce((best, s) => (far(s) < far(best) ? s : best));
  }

  appear(id) {
    const ring = element("circle", { r: 38, class: "ring", pathLength: 1, transform: "rotate(-90)" });
    const number = element("text");
    number.textContent = id + 1;
    const group = element(
      "g",
      { class: "worker", tabindex: 0, role: "button", "data-worker": id, "aria-describedby": "map-help" },
      element("circle", { r: 52, class: "grip" }),
      element("circle", { r: 38, class: "disc" }),
      ring,
      number,
    );
    group.addEventListener("pointerdown", (event) => this.grab(event, id));
    group.addEventListener("keydown", (event) => this.press(event, id));
    group.addEventListener("focus", () => this.actions.select(id));
    const beam = element("line", { class: "beam" });
    this.crowd.append(group);
    this.beams.append(beam);
    const parts = { group, ring, beam, at: "", heard: "" };
    this.workers.set(id, parts);
    return parts;
  }

  /** A point of the screen in metres. */
  metres(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
    return [point.x / this.unit, -point.y / this.unit];
  }

  grab(event, id) {
    if (event.button > 0) return;
    const { group } = this.workers.get(id);
    this.held = { id, group };
    this.svg.setPointerCapture(event.pointerId);
    group.classList.add("held");
    group.focus();
    event.preventDefault();
  }

  drag(event) {
    if (!this.held) return;
    this.move(this.held.id, ...this.metres(event), event.timeStamp);
  }

  drop() {
    this.held?.group.classList.remove("held");
    this.held = null;
  }

  press(event, id) {
    const arrow = ARROWS[event.key];
    if (arrow) {
      const worker = this.actions.worker(id);
      const step = event.shiftKey ? FAR_STEP_M : STEP_M;
      this.move(id, worker.x_m + step * arrow[0], worker.y_m + step * arrow[1], event.timeStamp);
    } else if (event.key === "Delete" || event.key === "Backspace") {
      this.actions.remove(id, event.timeStamp);
    } else return;
    event.preventDefault();
  }

  move(id, x, y, when) {
    const inside = (value) => Math.round(Math.min(this.half, Math.max(-this.half, value)));
    this.actions.move(id, inside(x), inside(y), when);
  }
}
