// The two tables: the round under every policy, and one worker under every policy.

import { bits, decibel, digits, megabits, three } from "./numbers.js";
import { missing } from "./thresholds.js";

function head({ name, colour }) {
  const cell = document.createElement("th");
  cell.scope = "row";
  const chip = document.createElement("span");
  chip.className = "chip";
  chip.style.background = colour;
  cell.append(chip, name);
  return cell;
}

function cell(text, className = "number") {
  const made = document.createElement("td");
  made.className = className;
  made.textContent = text;
  return made;
}

function line(row, cells) {
  const made = document.createElement("tr");
  made.dataset.policy = row.name;
  made.append(head(row), ...cells);
  return made;
}

/** How many active workers are below a threshold, and which. */
function belowThreshold(scene, row) {
  const below = missing(scene, row);
  const made = cell(String(below.length), `number${below.length ? " missed" : ""}`);
  made.title = below.map(({ text }) => text).join("; ") || "every active worker is above its thresholds";
  return made;
}

/** Objective, Lagrangian gap, workers below a threshold, active workers, time and energy. */
export function showRound(table, scene, answer) {
  const count = scene.workers.length;
  const rows = answer.policies.map((row) =>
    line(row, [
      cell(digits(row.objective, 4)),
      cell(digits(row.lagrangian_gap, 4)),
      belowThreshold(scene, row),
      cell(`${count - row.silent.length}/${count}`),
      cell(three(row.round_s)),
      cell(three(row.round_j)),
    ]),
  );
  for (const row of [...answer.orthogonal, answer.schedule]) {
    const cells = [cell("–"), cell("–"), cell("–"), cell(`${count}/${count}`), cell(three(row.round_s)), cell(three(row.round_j))];
    rows.push(line(row, cells));
  }
  for (const row of answer.absent) {
    const why = cell(row.why, "words");
    why.colSpan = 6;
    rows.push(line(row, [why]));
  }
  table.tBodies[0].replaceChildren(...rows);
}

/** What one worker gets; thresholds that it misses on this channel are marked. */
export function showWorker(table, scene, answer, index) {
  const marked = (value, threshold) => `number${value < threshold ? " missed" : ""}`;
  const rows = answer.policies.map((row) => {
    const [power, rate, efficiency] = [row.power_w[index], row.rate[index], row.efficiency[index]];
    if (power === 0) {
      const silent = cell("silent", "words");
      silent.colSpan = 7;
      return line(row, [silent]);
    }
    return line(row, [
      cell(three(1000 * power)),
      cell(digits(decibel(row.sinr[index]), 1)),
      cell(digits(row.success[index], 4)),
      cell(digits(bits(rate), 2), marked(rate, scene.rate_min)),
      cell(digits(megabits(efficiency), 1), marked(efficiency, scene.ee_min)),
      cell(three(row.airtime_s[index])),
      cell(three(row.energy_j[index])),
    ]);
  });
  table.tBodies[0].replaceChildren(...rows);
}
