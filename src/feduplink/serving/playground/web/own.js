// The user's own channel H, pasted or from a file.

/**
 * The rows of a square matrix in JSON, or in lines with commas, semicolons or spaces.
 * Values are left to the service, which refuses those that are not gains.
 * @returns {{rows: number[][]} | {problem: string}}
 */
export function parseMatrix(text) {
  const trimmed = text.trim();
  let rows;
  try {
    rows = trimmed.startsWith("[")
      ? JSON.parse(trimmed)
      : trimmed.split(/\r?\n/).map((line) => line.trim().split(/\s*[,;\s]\s*/).map(Number));
  } catch {
    return { problem: "This is not JSON; accepted: [[…], […]] or lines of numbers." };
  }
  // One channel of several dimensions, as a batch of one.
  if (rows.length === 1 && Array.isArray(rows[0]?.[0])) rows = rows[0];
  const numbers = rows.every((row) => Array.isArray(row) && row.every(Number.isFinite));
  if (!numbers) return { problem: "H must be numbers only, without a header; got something else." };
  if (rows.some((row) => row.length !== rows.length)) {
    const lengths = [...new Set(rows.map((row) => row.length))].join(" or ");
    return { problem: `H must be square, one row and one column per worker; got ${rows.length} rows of ${lengths} numbers.` };
  }
  return { rows };
}

export class OwnChannel {
  /**
   * @param element finds an element of the page
   * @param use called with (rows, when)
   * @param leave called with (when): back to the channel of the positions
   */
  constructor(element, use, leave) {
    this.note = element("own-note");
    this.back = element("own-back");
    const area = element("own-text");
    const apply = (when) => {
      const { rows, problem } = parseMatrix(area.value);
      this.note.textContent = problem ?? "";
      if (rows) use(rows, when);
    };
    const read = async (file, when) => {
      if (!file) return;
      area.value = await file.text();
      apply(when);
    };
    element("own-use").addEventListener("click", (event) => apply(event.timeStamp));
    element("own-file").addEventListener("change", (event) => read(event.target.files[0], event.timeStamp));
    area.addEventListener("dragover", (event) => event.preventDefault());
    area.addEventListener("drop", (event) => {
      if (!event.dataTransfer.files.length) return; // dropped text goes into the area by itself
      event.preventDefault();
      read(event.dataTransfer.files[0], event.timeStamp);
    });
    this.back.addEventListener("click", (event) => leave(event.timeStamp));
  }

  /** Whether the scene has a channel of the user's own. */
  show(own) {
    this.back.hidden = !own;
    if (own) this.note.textContent = "The figures are those of your H; positions have no effect, and the link does not contain it.";
  }

  say(text) {
    this.note.textContent = text;
  }
}
