// The two tables: the round under every policy, and one worker under every policy.

import { decibel, digits, three } from "./numbers.js";

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

/** Objective, distance to the optimum, who is on the air, time and energy. */
export function showRound(table, scene, answer) {
  const count = scene.workers.length;
  const rows = answer.policies.map((row) =>
    line(row, [
      cell(digits(row.objective, 4)),
      cell(digits(row.distance, 4)),
      cell(`${count - row.silent.length}/${count}`),
      cell(three(row.round_s)),
      cell(three(row.round_j)),
    ]),
  );
  for (const row of [...answer.orthogonal, answer.schedule]) {
    const cells = [cell("–"), cell("–"), cell(`${count}/${count}`), cell(three(row.round_s)), cell(three(row.round_j))];
    rows.push(line(row, cells));
  }
  for (const row of answer.absent) {
    const why = cell(row.why, "words");
    why.colSpan = 5;
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
      cell(digits(rate, 3), marked(rate, scene.rate_min)),
      cell(digits(efficiency, 1), marked(efficiency, scene.ee_min)),
      cell(three(row.airtime_s[index])),
      cell(three(row.energy_j[index])),
    ]);
  });
  table.tBodies[0].replaceChildren(...rows);
}
