// The sliders of the setting: native ones, so that keys, touch and screen readers work.

import { bits, dBm, digits, megabits } from "./numbers.js";

const SLIDERS = [
  { field: "pmax_dbw", name: "Pmax", step: 1, text: (v) => `${digits(dBm(v), 0)} dBm` },
  { field: "interference", name: "Interference", step: 0.5, text: (v) => `× ${digits(v, 1)}` },
  { field: "rate_min", name: "Rate at least", step: 0.05, text: (v) => `${digits(bits(v), 2)} bit/s/Hz` },
  { field: "ee_min", name: "Efficiency at least", step: 1, text: (v) => `${digits(megabits(v), 1)} Mbit/J` },
  { field: "kappa", name: "Price of energy κ", step: 1, text: (v) => `${digits(v, 0)} s/J` },
];

export class Sliders {
  /** @param change called with (field, value, when) */
  constructor(parent, limits, change) {
    this.parts = SLIDERS.map((slider) => {
      const input = document.createElement("input");
      const { least, most } = limits[slider.field];
      Object.assign(input, { type: "range", id: slider.field, min: least, max: most, step: slider.step });
      const label = document.createElement("label");
      label.htmlFor = slider.field;
      label.textContent = slider.name;
      const output = document.createElement("output");
      output.htmlFor = slider.field;
      const row = document.createElement("div");
      row.className = "slider";
      row.append(label, input, output);
      parent.append(row);
      input.addEventListener("input", (event) => change(slider.field, Number(input.value), event.timeStamp));
      return { ...slider, input, output };
    });
  }

  show(scene) {
    for (const { field, input, output, text } of this.parts) {
      const value = scene[field];
      // A link may have a value between two steps: the scene has it, the slider the nearest step.
      if (Number(input.value) !== value) input.value = value;
      output.textContent = text(value);
      input.setAttribute("aria-valuetext", text(value));
    }
  }
}
