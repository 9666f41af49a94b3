// Talking to the service: one request at a time, always about the newest scene.

const TOKEN = "feduplink-token";
/** Wait before asking again, ms: for multipliers that are being found, and after a failure. */
const AGAIN_MS = 600;
const RETRY_MS = 1500;

/** An answer that is not the one hoped for: its status and the service's sentence. */
export class Refused extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

export function useToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

async function ask(method, path, body) {
  const headers = {};
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body) headers["Content-Type"] = "application/json";
  const response = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) {
    const said = typeof answer.detail === "string" ? answer.detail : `The service answered ${response.status}.`;
    throw new Refused(response.status, said);
  }
  return answer;
}

export const firstScene = () => ask("GET", "v1/cell");

/**
 * Keeps at most one request in flight. Changes that come meanwhile wait, and only the newest scene
 * is asked about next.
 */
export class SceneRequests {
  /**
   * @param scene gives the scene to ask about
   * @param answered called with (scene, answer, since), since: when its first change was made, or null
   * @param failed called with the error
   */
  constructor(scene, answered, failed) {
    Object.assign(this, { scene, answered, failed, busy: false, changed: false, since: null });
  }

  /** The scene has changed at `when` (ms since the page was opened), or is to be asked about again. */
  change(when = null) {
    this.changed = true;
    this.since ??= when;
    if (!this.busy) this.send();
  }

  async send() {
    clearTimeout(this.timer);
    this.busy = true;
    while (this.changed) {
      const since = this.since;
      const scene = structuredClone(this.scene());
      this.changed = false;
      this.since = null;
      try {
        const answer = await ask("POST", "v1/scene", scene);
        this.answered(scene, answer, since);
        if (answer.multipliers.searching) this.later(AGAIN_MS);
      } catch (error) {
        this.failed(error);
        // What the service has refused it will refuse again; anything else may pass.
        const final = error instanceof Refused && error.status < 500 && error.status !== 429;
        if (!final) this.later(RETRY_MS);
        break;
      }
    }
    this.busy = false;
  }

  later(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => (document.hidden ? this.later(ms) : this.change()), ms);
  }
}
