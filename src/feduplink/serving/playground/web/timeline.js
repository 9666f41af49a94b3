// The timeline of a schedule: one row per worker, one column per phase, as high as the power.

import { decibel, listed, three } from "./numbers.js";

const SVG = "http://www.w3.org/2000/svg";
/** Powers are drawn from this much under Pmax, dB. */
const POWER_SPAN_DB = 40;
/** Sizes in units of the drawing, of which a row of workers is as wide as the page. */
const [WIDTH, LEFT, RIGHT, ROW, AXIS] = [600, 34, 28, 22, 34];
/** About so many marks on the axis of time. */
const MARKS = 5;

function element(name, attributes, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

/** 1, 2 or 5 times a power of ten: the distance of marks over a length. */
function distanceOfMarks(length) {
  const rough = length / MARKS;
  const size = 10 ** Math.floor(Math.log10(rough));
  return size * ([1, 2, 5].find((times) => times * size >= rough) ?? 10);
}

/** A mark without the digits that rounding leaves. */
const mark = (seconds) => String(Number(seconds.toPrecision(6)));

function phaseText(scene, phase, number) {
  const sending = scene.workers.filter((_, i) => phase.power_w[i] > 0);
  const powers = sending.map((w) => `${w.id + 1} at ${three(1000 * phase.power_w[scene.workers.indexOf(w)])} mW`);
  return `Phase ${number + 1}, ${three(phase.duration_s)} s: ${sending.length > 1 ? "workers" : "worker"} ${listed(powers)}.`;
}

/** Draw the schedule into an svg, and say its phases in a list. */
export function showTimeline(svg, list, scene, schedule, selected) {
  const { phases, colour, round_s: total } = schedule;
  const [count, pmax] = [scene.workers.length, 10 ** (scene.pmax_dbw / 10)];
  const height = count * ROW + AXIS;
  const x = (seconds) => LEFT + (seconds / total) * (WIDTH - LEFT - RIGHT);
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${height}`);
  const drawn = scene.workers.map((worker, i) => {
    const row = element("g", { "data-worker": worker.id, class: worker.id === selected ? "selected" : "" });
    row.append(
      element("rect", { class: "lane", x: LEFT, y: i * ROW, width: WIDTH - LEFT - RIGHT, height: ROW }),
      element("text", { x: LEFT - 8, y: (i + 0.5) * ROW, class: "worker-number" }, String(worker.id + 1)),
    );
    let begins = 0;
    for (const { duration_s: seconds, power_w: powers } of phases) {
      if (powers[i] > 0) {
        const share = Math.min(1, Math.max(0.08, 1 + decibel(powers[i] / pmax) / POWER_SPAN_DB));
        const tall = share * (ROW - 4);
        const bar = element("rect", {
          class: "sending", x: x(begins), width: x(seconds) - LEFT, y: (i + 1) * ROW - tall - 1, height: tall, fill: colour,
        });
        bar.append(element("title", {}, `worker ${worker.id + 1}: ${three(1000 * powers[i])} mW for ${three(seconds)} s`));
        row.append(bar);
      }
      begins += seconds;
    }
    return row;
  });
  const bottom = count * ROW;
  const step = distanceOfMarks(total);
  for (let at = 0; at <= total; at += step) {
    drawn.push(
      element("line", { class: "mark", x1: x(at), x2: x(at), y1: 0, y2: bottom + 4 }),
      element("text", { class: "time", x: x(at), y: bottom + 16 }, at + step <= total ? mark(at) : `${mark(at)} s`),
    );
  }
  svg.replaceChildren(...drawn);
  const said = phases.map((phase, number) => phaseText(scene, phase, number));
  svg.setAttribute("aria-label", `Who sends when, ${phases.length} phases in ${three(total)} s; listed below.`);
  list.replaceChildren(
    ...said.map((text) => {
      const item = document.createElement("li");
      item.textContent = text;
      return item;
    }),
  );
}
