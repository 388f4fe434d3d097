// The past denials of a key: a timeline, and the policies that denied.
import { html, useState } from './lib.js';
import { Failure } from './outage.js';
import { post, useAnswer, useApp } from './state.js';
import { causeText, count, keyText, many, printable } from './text.js';
import { MINUTE_MS, otherDimension } from './verdict.js';
import { atTime, fullTimeOf, lastTimeOf } from './zone.js';

const PAST_WIDTH = 720;
const PAST_HEIGHT = 64;

/** The spans of the timeline, and the minutes of a bar. */
const PAST_RANGES = /** @type {const} */ ([
  ['15 min', 15, 1],
  ['1 h', 60, 1],
  ['24 h', 1440, 20],
]);

/** The past denials of a key. @param {string} of @param {string | undefined} by */
export function usePast(of, by) {
  const ask = () => post('api/past', { key: of, ...(by && { dimension: by }) });
  return useAnswer(ask, [of, by], 15_000);
}

/** @param {any} props */
export function Past({ answer }) {
  const [range, setRange] = useState(2);
  const [clock, setClock] = useState('');
  const at = lastTimeOf(clock);
  const { parts } = useApp();
  const { denials: counted = [], isCounted = true } = answer.value ?? {};
  const denials = counted.map((/** @type {any} */ past) => ({
    ...past,
    minutes: past.minutes.map((/** @type {any} */ each) => ({
      ...each,
      other: otherDimension(past, each, parts[`row ${past.name}`]),
    })),
  }));
  return html`<section aria-labelledby="past">
    <div class="head">
      <h3 id="past">Denied in the past</h3>
      <div class="chips" role="group" aria-label="Span of the timeline">
        ${PAST_RANGES.map(([label], i) => html`<button type="button" class="small" aria-pressed=${range === i} onClick=${() => setRange(i)}>${label}</button>`)}
      </div>
      <label class="inline"
        ><span>At</span
        ><input
          type="time"
          name="at"
          value=${clock}
          onInput=${(/** @type {any} */ event) => setClock(event.target.value)}
      /></label>
    </div>
    ${at !== undefined && answer.value && isCounted && html`<${AtTime} at=${at} denials=${denials} />`}
    <${Failure} answer=${answer} />
    ${
      denials.length === 0
        ? html`<p class="quiet">
            ${answer.isLoading ? 'Reading …' : !answer.value ? 'Unknown.' : isCounted ? 'No denial is recorded in the last 24 hours.' : 'Unknown: the store has counts: false.'}
          </p>`
        : denials.map(
            (/** @type {any} */ each) => html`<${Timeline} past=${each} range=${PAST_RANGES[range]} />`,
          )
    }
  </section>`;
}

/** The minutes around a time in which denials belong to it: processes write their counts some seconds later. */
const AROUND_MINUTES = 2;

/** The denials at a time of the last day. @param {any} props */
function AtTime({ at, denials }) {
  const minute = at - (at % MINUTE_MS);
  const around = denials.flatMap((/** @type {any} */ each) =>
    each.minutes
      .filter((/** @type {any} */ own) => Math.abs(own.minute - minute) <= AROUND_MINUTES * MINUTE_MS)
      .map((/** @type {any} */ own) => ({ ...own, name: each.name, dimension: each.dimension })),
  );
  around.sort((/** @type {any} */ a, /** @type {any} */ b) => a.minute - b.minute || b.count - a.count);
  if (around.length === 0)
    return html`<p class="verdict-line" role="status">
      No denial is recorded from ${AROUND_MINUTES} minutes before ${fullTimeOf(at)} to ${AROUND_MINUTES}
      minutes after.
    </p>`;
  return html`<div role="status">
    <p class="verdict-line">Denials around ${fullTimeOf(at)}:</p>
    <ul class="over at">
      ${around.map((/** @type {any} */ row) => html`<li>${row.minute === minute ? html`<b>${atTime(row.minute)}</b>` : atTime(row.minute)} <b>${count(row.count)}</b> <span class="quiet">in ${printable(row.name)}${row.dimension === 'key' ? '' : `, ${printable(row.dimension)}`}, ${causesText([row])}</span></li>`)}
    </ul>
  </div>`;
}

/** @param {any} props */
function Timeline({ past, range: [, minutes, step] }) {
  const { name, dimension, within, first, last, minutes: all } = past;
  const now = Date.now();
  const size = step * MINUTE_MS;
  const end = now - (now % size) + size;
  const bars = Array.from({ length: minutes / step }, (_, i, list = minutes / step) => {
    const from = end - (list - i) * size;
    const own = all.filter((/** @type {any} */ each) => each.minute >= from && each.minute < from + size);
    return {
      from,
      own,
      count: own.reduce((/** @type {number} */ sum, /** @type {any} */ each) => sum + each.count, 0),
    };
  });
  const most = Math.max(1, ...bars.map((bar) => bar.count));
  const total = bars.reduce((sum, bar) => sum + bar.count, 0);
  const width = PAST_WIDTH / bars.length;
  const causes = bars.flatMap(({ own }) => own);
  return html`<article class="answer">
    <header>
      <h3>
        ${printable(name)}${dimension !== 'key' ? html` <span class="chip">${printable(dimension)}</span>` : ''}${within ? html` <span class="chip">within ${keyText(within)}</span>` : ''}
      </h3>
      <p>
        <b>${many(total, 'denial')}</b>
        <span class="quiet"
          >${total === 0 ? `in this span, last ${atTime(last)}` : `${causesText(causes)}, ${firstAndLast(causes, first, last)}`}</span
        >
      </p>
    </header>
    <svg
      class="past"
      viewBox=${`0 0 ${PAST_WIDTH} ${PAST_HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label=${`${many(total, 'denial')} in ${printable(name)} since ${fullTimeOf(bars[0]?.from ?? now)}`}
    >
      <line x1="0" x2=${PAST_WIDTH} y1=${PAST_HEIGHT - 0.5} y2=${PAST_HEIGHT - 0.5} class="axis" />
      ${bars.map(({ from, own, count: denied }, i) => {
        const height = denied === 0 ? 0 : Math.max(3, ((PAST_HEIGHT - 4) * denied) / most);
        return html`<g>
          <title>
            ${`${fullTimeOf(from)}: ${many(denied, 'denial')}${denied > 0 ? ` ${causesText(own)}` : ''}`}
          </title>
          <rect class="hit" x=${i * width} y="0" width=${width} height=${PAST_HEIGHT} />
          <rect
            class="denied"
            x=${i * width + 0.5}
            y=${PAST_HEIGHT - height}
            width=${Math.max(1, width - 1)}
            height=${height}
          />
        </g>`;
      })}
    </svg>
    ${total > 0 && html`<${LatestDenials} minutes=${causes} />`}
  </article>`;
}

/** The first and the last denial among some minutes. The times of all denials are known to a second. @param {any[]} minutes @param {any} first @param {any} last */
function firstAndLast(minutes, first, last) {
  const starts = minutes.map(({ minute }) => minute);
  const from = Math.max(new Date(first).getTime(), Math.min(...starts));
  const to = Math.min(new Date(last).getTime(), Math.max(...starts) + MINUTE_MS - 1);
  return `first ${atTime(from)}, last ${atTime(to)}`;
}

/** The lines that are always shown. */
const LATEST_MINUTES = 5;

/** The minutes with denials, the newest first. @param {any} props */
function LatestDenials({ minutes }) {
  const rows = [...minutes].sort((a, b) => b.minute - a.minute || b.count - a.count);
  const older = rows.slice(LATEST_MINUTES);
  const list = (/** @type {any[]} */ some) =>
    html`<ul class="over">
      ${some.map((row) => html`<li>${fullTimeOf(row.minute)} <b>${count(row.count)}</b> <span class="quiet">${causesText([row])}</span></li>`)}
    </ul>`;
  return html`${list(rows.slice(0, LATEST_MINUTES))}
  ${
    older.length > 0 &&
    html`<details>
      <summary>${many(older.length, 'older line')}</summary>
      ${list(older)}
    </details>`
  }`;
}

/** The policies and reasons, the most frequent first. @param {any[]} minutes */
function causesText(minutes) {
  const sums = new Map();
  for (const { policy, reason, other, count: denied } of minutes) {
    const cause =
      policy === undefined ? causeText({ name: reason, isReason: true }) : `by ${printable(policy)}`;
    const of = policy === undefined ? '' : 'a limit of ';
    const by = other === 'key' ? '' : ` (by ${printable(other ?? '')})`;
    const text = other === undefined ? cause : `${cause}, ${of}another key${by}`;
    sums.set(text, (sums.get(text) ?? 0) + denied);
  }
  return [...sums]
    .sort((a, b) => b[1] - a[1])
    .map(([text]) => text)
    .join(', ');
}
