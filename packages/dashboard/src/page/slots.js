// Slots and waiting requests of keys, by process.
import { currentSlots } from './key-facts.js';
import { html } from './lib.js';
import { Key, useFold, whyUncounted } from './parts.js';
import { app, useApp } from './state.js';
import { count, keyText, many, printable, span } from './text.js';

/** A process with slots or waiting requests of a key. @param {any} process */
function processLine({ host, pid, slots, heldMs, waiting, waitedMs }) {
  const held = slots > 0 && `${many(slots, 'slot')} held for up to ${span(heldMs)}`;
  const waits = waiting > 0 && `${count(waiting)} waiting for up to ${span(waitedMs)}`;
  return html`<div class="quiet">
    <code>${printable(host)}</code> ${pid}: ${[held, waits].filter(Boolean).join(', ')}
  </div>`;
}

/** The processes of a limiter that may have ended, in words. Their slots are free when the leases end. @param {string} name */
function silentText(name) {
  const silent = (app.parts.instances ?? []).filter(
    (/** @type {any} */ each) => each.silentMs > 0 && each.names.includes(name),
  );
  const texts = silent.map(
    (/** @type {any} */ { host, pid, silentMs }) =>
      `${printable(host)} ${pid} is silent for ${span(silentMs)}`,
  );
  return texts.length > 0 ? `: ${texts.join(', ')}` : '';
}

/** The processes with slots of a key, and slots without a process. @param {any} props */
export function SlotUse({ name, processes, uncounted, freeAfterMs }) {
  return html`${processes.map(processLine)}${uncounted > 0 && html`<div class="warn">${many(uncounted, 'slot')} counted by no process: taken just now, or its process ended${silentText(name)} (then free in ${span(freeAfterMs)} at the latest)</div>`}`;
}

/** @param {any} key */
const idOf = ({ key, dimension, within }) => JSON.stringify([key, dimension, within]);

/** Keys with slots, by a search, and keys with waiting requests. @param {any} props */
export function Slots({
  row,
  answer: { value, error },
  queues: { keys, isCut: isCountCut } = { keys: [], isCut: false },
}) {
  const { slots = [], isCut = false, isUnknown = false } = value ?? {};
  const found = new Set(slots.map(idOf));
  const others = keys.filter((/** @type {any} */ each) => !found.has(idOf(each)));
  const waiting = [...new Map(others.map((/** @type {any} */ each) => [idOf(each), each])).values()];
  const { shown, more } = useFold([...waiting, ...slots], 6);
  if (!row.slots && shown.length === 0) return '';
  const why = whyUncounted(row);
  return html`<h3>${row.slots ? 'Slots and waiting requests' : 'Waiting requests'} by key</h3>
    ${
      shown.length === 0
        ? html`<p class="quiet">
            ${!value ? (error ? 'Unknown.' : 'Searching keys …') : isUnknown ? 'Unknown: the limits depend on the request.' : isCut ? 'None among the keys that a search of two seconds reads.' : 'No slot is in use.'}
          </p>`
        : html`<ul class="list slots">
              ${shown.map((/** @type {any} */ one) => {
                const processes = keys.filter((/** @type {any} */ own) => idOf(own) === idOf(one));
                const each = one.policy ? currentSlots(one, processes) : one;
                return html`<li>
                  <div>
                    <${Key}
                      of=${each.key}
                      dimension=${each.dimension}
                    />${each.policy && html`<span class="quiet"><b>${count(each.used)} of ${count(each.limit)}</b> ${printable(each.policy)}${each.tier ? ` in tier ${printable(each.tier)}` : ''}</span>`}${each.within ? html` <span class="quiet">within ${keyText(each.within)}</span>` : ''}
                    <${SlotUse}
                      name=${row.name}
                      processes=${processes}
                      uncounted=${each.uncounted}
                      freeAfterMs=${each.freeAfterMs}
                    />
                  </div>
                </li>`;
              })}
            </ul>
            ${more}${(isCut || isCountCut) && html`<p class="quiet">There may be more: a search reads keys for two seconds, and each process reports 20 keys.</p>`}`
    }
    ${why && html`<p class="quiet">Processes and waiting requests unknown: ${why}.</p>`}`;
}

/** The slots and the waiting requests of a limiter in each process. @param {any} props */
export function Queues({ name }) {
  const { parts } = useApp();
  const own = (parts.processes ?? []).flatMap((/** @type {any} */ { host, pid, limiters }) =>
    limiters
      .filter((/** @type {any} */ each) => each.name === name)
      .map((/** @type {any} */ each) => ({ ...each, host, pid })),
  );
  if (own.length === 0) return '';
  return html`<h3>Slots and waiting requests <span class="quiet">of all keys, by process</span></h3>
    <ul class="list">
      ${own.map(
        (/** @type {any} */ { host, pid, slots, waiting, held, maxWaiting }) =>
          html`<li>
            <div>
              <code>${printable(host)}</code>
              <span class="quiet"
                >${pid}: ${many(slots, 'slot')} in use, ${count(waiting)} of at most ${count(maxWaiting)}
                waiting${held > 0 ? `, ${count(held)} held` : ''}</span
              >
            </div>
          </li>`,
      )}
    </ul>`;
}
