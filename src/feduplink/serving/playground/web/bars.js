// A card per policy with its bars: one row per measure, one column per worker.

import { bits, decibel, dBm, listed, megabits, three } from "./numbers.js";
import { missing } from "./thresholds.js";

/** Powers are drawn from this much under Pmax, dB. */
const POWER_SPAN_DB = 40;
/** The scale of a measure with a threshold ends at so many thresholds, or at this without one. */
const THRESHOLDS_SHOWN = 3;
const RATE_SHOWN = 1.5;
const EFFICIENCY_SHOWN = 120;
/** With more workers there is no room for their numbers. */
const MOST_NUMBERED = 20;
/** More silent workers than these are counted, not listed. */
const MOST_LISTED = 8;

/**
 * The measures: values of a row, share of the scale (0 to 1, more is beyond it), the threshold's
 * share, and what stands beside the bars.
 */
function measures(scene) {
  const rateTop = THRESHOLDS_SHOWN * scene.rate_min || RATE_SHOWN;
  const efficiencyTop = THRESHOLDS_SHOWN * scene.ee_min || EFFICIENCY_SHOWN;
  const pmax = 10 ** (scene.pmax_dbw / 10);
  return [
    {
      field: "power_w", name: "power", scale: `${dBm(scene.pmax_dbw) - POWER_SPAN_DB} to ${dBm(scene.pmax_dbw)} dBm`,
      share: (watts) => 1 + decibel(watts / pmax) / POWER_SPAN_DB, unit: "mW", shown: (watts) => 1000 * watts,
    },
    { field: "success", name: "success", scale: "0 to 1", share: (rate) => rate, unit: "", shown: (rate) => rate },
    {
      field: "rate", name: "rate", scale: `to ${three(bits(rateTop))} bit/s/Hz`,
      share: (rate) => rate / rateTop, threshold: scene.rate_min / rateTop, unit: "bit/s/Hz", shown: bits,
    },
    {
      field: "efficiency", name: "efficiency", scale: `to ${three(megabits(efficiencyTop))} Mbit/J`,
      share: (value) => value / efficiencyTop, threshold: scene.ee_min / efficiencyTop, unit: "Mbit/J", shown: megabits,
    },
  ];
}

function div(className, ...children) {
  const made = document.createElement("div");
  made.className = className;
  made.append(...children);
  return made;
}

function silenceText({ silent }, { workers }) {
  if (silent.length === 0) return "all active";
  if (silent.length > MOST_LISTED) return `silent: ${silent.length} of ${workers.length}`;
  return `silent: ${listed(silent.map((id) => id + 1))}`;
}

class Card {
  constructor(row, workers, select) {
    this.title = document.createElement("h3");
    const chip = document.createElement("span");
    chip.className = "chip";
    chip.style.background = row.colour;
    this.silent = document.createElement("span");
    this.silent.className = "about";
    const name = document.createElement("span");
    name.append(chip, row.name);
    this.below = document.createElement("span");
    this.below.className = "about missed";
    this.title.append(name, this.below, this.silent);
    this.element = div("card", this.title);
    this.element.dataset.policy = row.name;
    this.rows = ["power_w", "success", "rate", "efficiency"].map((field) => {
      const bars = workers.map(() => div("bar"));
      const columns = bars.map((bar, i) => this.column(workers[i], select, bar));
      const line = div("threshold");
      const chart = div("bars", ...columns, line);
      chart.dataset.measure = field;
      chart.setAttribute("role", "img");
      for (const bar of bars) bar.style.color = row.colour;
      const [label, scale] = [div("label"), document.createElement("span")];
      this.element.append(div("measure", label, chart));
      return { chart, bars, line, label, scale };
    });
    const numbered = workers.length <= MOST_NUMBERED;
    this.numbers = workers.map((w) => this.column(w, select, numbered ? String(w.id + 1) : " "));
    const foot = div("bars numbers", ...this.numbers);
    foot.setAttribute("aria-hidden", "true");
    this.element.append(div("measure", div("label"), foot));
  }

  /** A pointer selects a worker by its column; keys do so on the map. */
  column(worker, select, content) {
    const made = div("column", content);
    made.dataset.worker = worker.id;
    made.addEventListener("click", () => select(worker.id));
    return made;
  }

  show(scene, row) {
    const silent = new Set(row.silent);
    const below = missing(scene, row);
    this.silent.textContent = silenceText(row, scene);
    this.below.textContent = below.length ? `below a threshold: ${below.length}` : "";
    this.below.title = below.map(({ text }) => text).join("; ");
    measures(scene).forEach((measure, index) => {
      const { chart, bars, line, label, scale } = this.rows[index];
      scale.textContent = measure.scale;
      label.replaceChildren(measure.name, scale);
      line.style.bottom = `${100 * (measure.threshold ?? 0)}%`;
      line.hidden = !measure.threshold;
      const values = row[measure.field];
      bars.forEach((bar, i) => {
        const off = silent.has(scene.workers[i].id);
        const share = off ? 0 : measure.share(values[i]);
        bar.classList.toggle("under", !off && measure.threshold > share);
        bar.style.height = `${100 * Math.min(1, Math.max(0, share))}%`;
        bar.classList.toggle("beyond", share > 1);
        bar.classList.toggle("none", share <= 0);
        bar.dataset.value = values[i];
        bar.parentElement.title = `worker ${scene.workers[i].id + 1}: ` +
          (off ? "silent" : `${measure.name} ${three(measure.shown(values[i]))} ${measure.unit}`);
      });
      const said = values.map((value, i) => (silent.has(scene.workers[i].id) ? "silent" : three(measure.shown(value))));
      chart.setAttribute("aria-label", `${measure.name} per worker under ${row.name}, ${measure.unit}: ${said.join(", ")}`);
    });
    scene.workers.forEach((w, i) => this.numbers[i].classList.toggle("off", silent.has(w.id)));
  }
}

export class Cards {
  constructor(parent, select) {
    Object.assign(this, { parent, select, cards: new Map(), made: "" });
  }

  show(scene, answer) {
    // Made anew only when policies or workers come or go.
    const needed = JSON.stringify([answer.policies.map((p) => p.name), scene.workers.map((w) => w.id)]);
    if (needed !== this.made) {
      this.cards = new Map(answer.policies.map((row) => [row.name, new Card(row, scene.workers, this.select)]));
      this.parent.replaceChildren(...[...this.cards.values()].map((card) => card.element));
      this.made = needed;
    }
    for (const row of answer.policies) this.cards.get(row.name).show(scene, row);
  }

  mark(id) {
    for (const column of this.parent.querySelectorAll(".column")) {
      column.classList.toggle("selected", column.dataset.worker === String(id));
    }
  }
}

