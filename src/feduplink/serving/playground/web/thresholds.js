// Which workers miss a threshold on this channel under a policy.

import { bits, digits, megabits } from "./numbers.js";

/**
 * The active workers below a threshold; the constraints say nothing of a silent one.
 * @returns {{id: number, text: string}[]}
 */
export function missing(scene, row) {
  return scene.workers.flatMap((worker, i) => {
    if (row.power_w[i] === 0) return [];
    const faults = [];
    if (row.rate[i] < scene.rate_min) faults.push(`rate ${digits(bits(row.rate[i]), 2)} bit/s/Hz`);
    if (row.efficiency[i] < scene.ee_min) faults.push(`efficiency ${digits(megabits(row.efficiency[i]), 1)} Mbit/J`);
    return faults.length ? [{ id: worker.id, text: `worker ${worker.id + 1}: ${faults.join(", ")}` }] : [];
  });
}
