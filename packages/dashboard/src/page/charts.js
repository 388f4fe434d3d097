// Charts as SVG.
import { html } from './lib.js';
import { count } from './text.js';
import { atTime } from './zone.js';

/** @param {number[]} values @param {number} width @param {(value: number) => number} y */
function line(values, width, y) {
  const step = width / Math.max(1, values.length - 1);
  return values.map((value, i) => `${(i * step).toFixed(1)},${y(value).toFixed(1)}`).join(' L');
}

/** The admitted and denied requests of each minute, or of each ten minutes, one above the other. @param {any} props */
export function Spark({ spark, minutes = [], width = 140, height = 34, large = false }) {
  if (!spark || spark.admitted.length === 0)
    return html`<svg class="spark" viewBox=${`0 0 ${width} ${height}`} role="img" aria-label="no counts yet">
      <line x1="0" x2=${width} y1=${height - 1} y2=${height - 1} class="axis" />
    </svg>`;
  // The current time is incomplete and would look like a collapse.
  const end = spark.admitted.length > 2 ? -1 : undefined;
  const admitted = spark.admitted.slice(0, end);
  const denied = spark.denied.slice(0, end);
  const sums = admitted.map((/** @type {number} */ value, /** @type {number} */ i) => value + denied[i]);
  const most = Math.max(1, ...sums);
  const top = large ? 6 : 3;
  const y = (/** @type {number} */ value) => height - 1 - ((height - 1 - top) * value) / most;
  const floor = `L${width},${height} L0,${height} Z`;
  const total = (/** @type {number[]} */ values) => values.reduce((a, b) => a + b, 0);
  const from = minutes.length > 0 ? `since ${atTime(minutes[0])}, ` : '';
  const label = `${from}${count(total(admitted))} admitted, ${count(total(denied))} denied, at most ${count(most)} ${minutes[1] - minutes[0] > 60_000 ? 'in ten minutes' : 'a minute'}`;
  const isQuiet = total(sums) === 0;
  const degraded = spark.degraded ?? [];
  const outages = total(degraded) > 0 ? `, ${count(total(degraded))} decided without the store` : '';
  const step = width / Math.max(1, sums.length - 1);
  // The denied requests are at the bottom, where their height can be compared.
  return html`<svg
    class=${large ? 'spark large' : 'spark'}
    viewBox=${`0 0 ${width} ${height}`}
    preserveAspectRatio="none"
    role="img"
    aria-label=${label + outages}
  >
    <line x1="0" x2=${width} y1=${height - 0.5} y2=${height - 0.5} class="axis" />
    ${
      isQuiet
        ? ''
        : html`<path class="admitted" d=${`M${line(sums, width, y)} ${floor}`} />
            <path class="edge" d=${`M${line(sums, width, y)}`} />
            ${total(denied) > 0 ? html`<path class="denied" d=${`M${line(denied, width, y)} ${floor}`} />` : ''}`
    }
    ${admitted.map(
      (/** @type {number} */ value, /** @type {number} */ i) =>
        html`<rect class="hit" x=${(i - 0.5) * step} y="0" width=${step} height=${height}>
          <title>
            ${`${minutes[i] ? `${atTime(minutes[i])}: ` : ''}${count(value)} admitted, ${count(denied[i] ?? 0)} denied${degraded[i] > 0 ? `, ${count(degraded[i])} decided without the store` : ''}`}
          </title>
        </rect>`,
    )}
  </svg>`;
}

/** A part of a whole. @param {any} props */
export function Bar({ share, kind = '', label }) {
  const width = Math.min(100, Math.max(share > 0 ? 2 : 0, 100 * share));
  return html`<span class=${`bar ${kind}`} role="img" aria-label=${label}
    ><i style=${{ width: `${width}%` }}></i
  ></span>`;
}
