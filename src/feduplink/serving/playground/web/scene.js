// The scene: what the page shows, kept in the part of the address after '#'.

/** The numbers of a setting: name in the scene, name in the link. */
export const SETTING = { pmax_dbw: "pmax", interference: "interference", rate_min: "rate", ee_min: "ee" };

/** A number as short as a link needs it. */
const short = (value) => String(Math.round(value * 1000) / 1000);

/** The scene as the part of an address after '#'. */
export function toHash(scene, shown) {
  const parts = Object.entries(SETTING).map(([field, name]) => `${name}=${short(scene[field])}`);
  const workers = scene.workers.map((w) => `${w.id}:${short(w.x_m)}:${short(w.y_m)}`).join(",");
  parts.push(`kappa=${short(scene.kappa)}`);
  return `#${parts.join("&")}&seed=${scene.seed}&map=${encodeURIComponent(shown)}&workers=${workers}`;
}

/**
 * The scene of a link, or null if it is none; `start` has the limits to keep to.
 * @returns {{scene: object, shown: string} | null}
 */
export function fromHash(hash, start) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const scene = { workers: [], seed: Number(given.get("seed") ?? NaN) };
  for (const [field, name] of Object.entries(SETTING)) {
    const { least, most } = start.limits[field];
    scene[field] = Number(given.get(name) ?? NaN);
    if (!(scene[field] >= least && scene[field] <= most)) return null;
  }
  if (!(Number.isInteger(scene.seed) && scene.seed >= 0 && scene.seed < 2 ** 32)) return null;
  // Links of before have no price of energy.
  scene.kappa = Number(given.get("kappa") ?? start.scene.kappa);
  if (!(scene.kappa >= start.limits.kappa.least && scene.kappa <= start.limits.kappa.most)) return null;
  const half = start.limits.half_side_m;
  const taken = new Set();
  for (const text of (given.get("workers") ?? "").split(",")) {
    const [id, x_m, y_m] = text.split(":").map((part) => (part === "" ? NaN : Number(part)));
    const inside = Math.abs(x_m) <= half && Math.abs(y_m) <= half;
    const free = Number.isInteger(id) && id >= 0 && id < start.limits.workers && !taken.has(id);
    if (!inside || !free) return null;
    taken.add(id);
    scene.workers.push({ id, x_m, y_m });
  }
  return { scene, shown: given.get("map") ?? "" };
}

/** The lowest number that no worker has. */
export function freeNumber(workers) {
  const taken = new Set(workers.map((w) => w.id));
  let id = 0;
  while (taken.has(id)) id += 1;
  return id;
}
