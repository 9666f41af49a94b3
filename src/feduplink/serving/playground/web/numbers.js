// Numbers as people read them.

export const digits = (value, count) => (value === null ? "−∞" : value.toFixed(count).replace("-", "−"));

/** Three digits that count: 0.00123, 12.3, 1230. */
export function three(value) {
  if (value === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(value)));
  if (size < -4) return value.toExponential(1).replace("-", "−");
  return digits(value, Math.min(6, Math.max(0, 2 - size)));
}

export const decibel = (ratio) => (ratio > 0 ? 10 * Math.log10(ratio) : -Infinity);

/** "1", "1 and 2", "1, 2 and 3". */
export function listed(items) {
  if (items.length < 2) return items.join("");
  return `${items.slice(0, -1).join(", ")} and ${items.at(-1)}`;
}

/** Mbit/J per nat/s/Hz/W: the bandwidth over ln 2, in millions. */
let perJoule = 180e3 / Math.LN2 / 1e6;

export function useBandwidth(hertz) {
  perJoule = hertz / Math.LN2 / 1e6;
}

/** The service computes in dBW, nats/s/Hz and nats/s/Hz/W; people read dBm, bit/s/Hz and Mbit/J. */
export const dBm = (dbw) => dbw + 30;
export const bits = (nats) => nats / Math.LN2;
export const megabits = (nats) => nats * perJoule;
