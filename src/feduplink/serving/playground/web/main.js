// The page: keeps the scene, asks the service about it, and shows what comes back.

import { Cards } from "./bars.js";
import { CellMap } from "./map.js";
import { bits, dBm, digits, listed, megabits, three, useBandwidth } from "./numbers.js";
import { OwnChannel } from "./own.js";
import { freeNumber, fromHash, toHash } from "./scene.js";
import { firstScene, Refused, SceneRequests, useToken } from "./service.js";
import { Sliders } from "./sliders.js";
import { showRound, showWorker } from "./tables.js";
import { showTimeline } from "./timeline.js";

/** The policy on the map, unless the link says another. */
const SHOWN = "pdx";
/** After so many ms without a change the link is written and the figures are read out. */
const QUIET_MS = 400;
/** How long it took from a change to the bars that follow it; see performance.getEntries. */
const FOLLOWED = "bars follow";

const byId = (id) => document.getElementById(id);

class Page {
  constructor(start) {
    this.start = start;
    useBandwidth(start.bandwidth_hz);
    this.restore();
    this.requests = new SceneRequests(
      () => this.scene,
      (scene, answer, since) => this.answered(scene, answer, since),
      (error) => this.failed(error),
    );
    this.map = new CellMap(byId("map"), start, {
      worker: (id) => this.scene.workers.find((w) => w.id === id),
      move: (id, x, y, when) => this.move(id, x, y, when),
      remove: (id, when) => this.remove(id, when),
      select: (id) => this.select(id),
    });
    this.cards = new Cards(byId("cards"), (id) => this.select(id));
    this.sliders = new Sliders(byId("sliders"), start.limits, (field, value, when) => {
      this.scene[field] = value;
      this.changed(when);
    });
    this.own = new OwnChannel(byId, (rows, when) => this.useOwn(rows, when), (when) => {
      this.leaveOwn();
      this.changed(when);
    });
    byId("weights").textContent = start.model_weights.toLocaleString("en");
    byId("add").addEventListener("click", (event) => this.add(event.timeStamp));
    byId("remove").addEventListener("click", (event) => this.remove(this.selected, event.timeStamp));
    byId("redraw").addEventListener("click", (event) => {
      this.leaveOwn();
      this.scene.seed = crypto.getRandomValues(new Uint32Array(1))[0];
      this.changed(event.timeStamp);
    });
    byId("copy").addEventListener("click", () => this.copyLink());
    byId("shown").addEventListener("change", () => {
      this.shown = byId("shown").value;
      this.showAnswer();
      this.whenQuiet();
    });
    window.addEventListener("hashchange", () => {
      this.restore();
      this.changed(performance.now());
    });
    this.changed(performance.now());
  }

  /** Take the scene from the link; without one, the service's. */
  restore() {
    const linked = location.hash.length > 1 ? fromHash(location.hash, this.start) : null;
    this.scene = linked?.scene ?? structuredClone(this.start.scene);
    this.shown = linked?.shown || SHOWN;
    this.selected = this.scene.workers[0].id;
    byId("link-note").textContent =
      location.hash.length > 1 && !linked ? "The link is not one of this cell's; this is where one begins." : "";
  }

  /** The scene is another one since `when`: show what needs no physics at once, ask for the rest. */
  changed(when) {
    this.map.place(this.scene, this.selected);
    this.sliders.show(this.scene);
    byId("add").disabled = this.scene.workers.length >= this.start.limits.workers;
    const only = this.scene.workers.length === 1;
    byId("remove").disabled = only;
    byId("remove").textContent = only ? "Remove" : `Remove ${this.selected + 1}`;
    byId("outcome").ariaBusy = "true";
    this.requests.change(when);
    this.whenQuiet();
  }

  move(id, x_m, y_m, when) {
    const worker = this.scene.workers.find((w) => w.id === id);
    Object.assign(worker, { x_m, y_m });
    this.changed(when);
  }

  /** The figures of a channel of the user's own, for as many workers as it has rows. */
  useOwn(rows, when) {
    const { workers } = this.scene;
    if (rows.length > this.start.limits.workers) {
      this.own.say(`H may have at most ${this.start.limits.workers} workers; got ${rows.length}.`);
      return;
    }
    workers.length = Math.min(workers.length, rows.length);
    while (workers.length < rows.length) this.enter();
    if (!workers.some((w) => w.id === this.selected)) this.selected = workers[0].id;
    this.scene.csi = rows;
    this.own.show(true);
    this.changed(when);
  }

  leaveOwn() {
    if (!this.scene.csi) return;
    delete this.scene.csi;
    this.own.show(false);
    this.own.say("The figures are those of the cell again.");
  }

  add(when) {
    this.leaveOwn();
    this.selected = this.enter();
    this.changed(when);
    this.map.focus(this.selected);
  }

  /** A new worker somewhere in the cell; returns its id. */
  enter() {
    const half = this.start.limits.half_side_m;
    const anywhere = () => Math.round((2 * Math.random() - 1) * half);
    const id = freeNumber(this.scene.workers);
    this.scene.workers.push({ id, x_m: anywhere(), y_m: anywhere() });
    this.scene.workers.sort((a, b) => a.id - b.id);
    return id;
  }

  remove(id, when) {
    const index = this.scene.workers.findIndex((w) => w.id === id);
    if (index < 0 || this.scene.workers.length === 1) return;
    this.leaveOwn();
    const onMap = document.activeElement?.closest?.("#map");
    this.scene.workers.splice(index, 1);
    this.selected = this.scene.workers[Math.min(index, this.scene.workers.length - 1)].id;
    this.changed(when);
    if (onMap) this.map.focus(this.selected);
  }

  select(id) {
    if (id === this.selected) return;
    this.selected = id;
    this.map.place(this.scene, id);
    if (!byId("remove").disabled) byId("remove").textContent = `Remove ${id + 1}`;
    this.showAnswer();
  }

  answered(scene, answer, since) {
    this.answer = { scene, ...answer };
    byId("trouble").hidden = true;
    this.showAnswer();
    byId("outcome").ariaBusy = String(this.requests.changed);
    if (since === null) return;
    // The next frame paints what was changed above.
    requestAnimationFrame(() => {
      performance.clearMeasures(FOLLOWED);
      const { duration } = performance.measure(FOLLOWED, { start: since });
      byId("followed").textContent = `The bars followed the last change in ${Math.round(duration)} ms.`;
    });
  }

  failed(error) {
    byId("token-form").hidden = !(error instanceof Refused && error.status === 401);
    byId("trouble").textContent =
      error instanceof Refused ? error.message : "The service does not answer; it is asked again until it does.";
    byId("trouble").hidden = false;
  }

  showAnswer() {
    if (!this.answer) return;
    const { scene, policies } = this.answer;
    const row = policies.find((p) => p.name === this.shown) ?? policies[0];
    this.showPolicies(policies, row.name);
    this.map.hear(scene, row);
    showRound(byId("round"), scene, this.answer);
    const { schedule } = this.answer;
    byId("timeline-name").textContent = schedule.name;
    byId("timeline-kappa").textContent = String(schedule.kappa);
    showTimeline(byId("timeline"), byId("phases"), scene, schedule, this.selected);
    this.cards.show(scene, this.answer);
    this.cards.mark(this.selected);
    const index = scene.workers.findIndex((w) => w.id === this.selected);
    // A worker that was just added has no figures yet.
    if (index >= 0) {
      const about = this.answer.workers[index];
      byId("worker-title").textContent = `Worker ${this.selected + 1}`;
      const far = scene.csi ? "" : `${digits(about.distance_m, 0)} m from its base station; `;
      byId("worker-about").textContent =
        `${far}${digits(about.snr_db, 1)} dB over the noise ` +
        `if alone at full power; weight ${digits(about.weight, 3)}.`;
      showWorker(byId("worker"), scene, this.answer, index);
    }
    byId("multipliers").textContent = multipliersText(this.answer.multipliers);
  }

  showPolicies(policies, shown) {
    const select = byId("shown");
    const names = policies.map((p) => p.name);
    if ([...select.options].map((o) => o.value).join() !== names.join()) {
      select.replaceChildren(...names.map((name) => new Option(name)));
    }
    select.value = shown;
  }

  whenQuiet() {
    clearTimeout(this.quiet);
    this.quiet = setTimeout(() => {
      // Browsers allow only so many changes of the address in a time.
      history.replaceState(null, "", toHash(this.scene, this.shown));
      this.readOut();
    }, QUIET_MS);
  }

  readOut() {
    if (!this.answer) return;
    const row = this.answer.policies.find((p) => p.name === this.shown) ?? this.answer.policies[0];
    const silent = row.silent.length ? `workers ${listed(row.silent.map((id) => id + 1))} silent` : "all active";
    byId("live").textContent =
      `${row.name}: objective ${digits(row.objective, 3)}, Lagrangian gap ${digits(row.lagrangian_gap, 4)}, ${silent}; ` +
      `the round takes ${three(row.round_s)} s and ${three(row.round_j)} J.`;
  }

  async copyLink() {
    history.replaceState(null, "", toHash(this.scene, this.shown));
    try {
      await navigator.clipboard.writeText(location.href);
      byId("link-note").textContent = "Copied: the link restores this scene.";
    } catch {
      byId("link-note").textContent = "The address of this page restores this scene; copy it from there.";
    }
  }
}

/** Whose multipliers the figures come from. */
function multipliersText(m) {
  const setting =
    `${digits(dBm(m.pmax_dbw), 0)} dBm, interference × ${digits(m.interference, 1)}, ` +
    `rate ≥ ${digits(bits(m.rate_min), 2)} bit/s/Hz, efficiency ≥ ${digits(megabits(m.ee_min), 1)} Mbit/J, ` +
    `${m.workers} workers`;
  if (!m.own) {
    const next = m.failure ?? "finding those of this setting …";
    return `Multipliers of the nearest known setting (${setting}); ${next}`;
  }
  const found = `Multipliers of this setting, found on ${m.channels.toLocaleString("en")} channels.`;
  if (m.rate_min === 0 && m.ee_min === 0) return `${found} Without thresholds they are 0.`;
  if (m.shortfall === null) return `${found} How well pdx keeps to the thresholds is being measured …`;
  const missed = digits(100 * Math.abs(m.shortfall), 1);
  const error = digits(100 * (m.shortfall_error ?? 0), 1);
  const kept = m.shortfall > 0 ? `misses the hardest threshold by ${missed}` : `is above every threshold by ${missed}`;
  return `${found} On others pdx ${kept} ± ${error} % on average.`;
}

async function begin() {
  const trouble = byId("trouble");
  try {
    const start = await firstScene();
    new Page(start);
  } catch (error) {
    byId("token-form").hidden = !(error instanceof Refused && error.status === 401);
    trouble.textContent = error instanceof Refused ? error.message : "The service does not answer.";
    trouble.hidden = false;
  }
}

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(byId("token").value);
  location.reload();
});
begin();
