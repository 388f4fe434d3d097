// The cause of an outage, and the age of figures meanwhile.
import { html } from './lib.js';
import { linkOf } from './link.js';
import { Problem, Time } from './parts.js';
import { useApp } from './state.js';
import { outagesIn, outageTime } from './outages.js';
import { many, printable } from './text.js';
import { atTime } from './zone.js';

/** The age of the figures, the cause and the next step, while the store does not answer. */
export function Outage() {
  const { parts, heardAt, error } = useApp();
  const { isSilent, isEnded } = linkOf();
  if (isSilent || isEnded)
    return html`<div class="problem" role="alert">
      <p>
        <b>${isEnded ? error : 'No data arrives from the server of this page.'}</b>
        The figures below are from <${Time} at=${heardAt} />, and may not be true now.
      </p>
      ${!isEnded && html`<p>${error || 'The process that serves this page hangs, or the connection to it is cut.'} The page tries again by itself.</p>`}
    </div>`;
  if (parts.store?.state !== 'down') return html`<${Loss} of=${parts.store?.loss} />`;
  const { message, readAt } = parts.store;
  return html`<div class="problem" role="alert">
    <p>
      <b>The store does not answer.</b>
      ${readAt ? html`The figures below are from <${Time} at=${readAt} />, and not true now.` : 'No figure is known.'}
      Until it is back, each process decides by its <code>onStoreError</code>.
    </p>
    <p>Cause: ${printable(message ?? '')}</p>
    <p>
      Next: run <code>headgate check</code> where a service runs. It prints the latency, and how processes see
      the store. If all of it is ok there, this process cannot reach the store; otherwise restart the store,
      or end the command that occupies it.
    </p>
  </div>`;
}

/** The notice that Redis lost its records. @param {any} props */
function Loss({ of }) {
  if (!of) return null;
  return html`<p class="problem" role="status">
    <b>${of.cause === 'restart' ? 'Redis restarted without its records' : 'Redis was emptied'}</b>
    <${Time} at=${of.at} />. Earlier bans, overrides, charges, counts and log entries are gone.
  </p>`;
}

/** The last outage in the span of the lines, with its cause; on request the earlier ones; and apart from them the late answers. @param {any} props */
export function PastOutages({ minutes = [], counts, isDown }) {
  const { outages, late } = outagesIn(minutes, counts);
  const length = minutes[1] - minutes[0];
  const span = { length, end: minutes.at(-1) + length, isDown };
  const [last, ...earlier] = outages
    .reverse()
    .map(
      (outage) =>
        html`<p class="warn">
          ${outageTime(outage, span, atTime)}: ${outage.cause}. ${many(outage.sum, 'decision')} without it
        </p>`,
    );
  return html`${last}${
    earlier.length > 0 &&
    html`<details>
      <summary>${many(earlier.length, 'earlier outage')}</summary>
      ${earlier}
    </details>`
  }${late > 0 && html`<p class="quiet">${many(late, 'late answer')}: decided without the store, which was up</p>`}`;
}

/** The error of an answer, and the age of the last answer that is still shown; or that it is from before a change. @param {any} props */
export function Failure({ answer: { value, error, readAt, isOld } }) {
  if (isOld) return html`<p class="quiet" role="status">Reading again after the change …</p>`;
  if (!error) return null;
  return html`<${Problem}
      text=${error}
    />${value && html`<p class="warn">The answer below is from <${Time} at=${readAt} />, and may not be true now.</p>`}`;
}
