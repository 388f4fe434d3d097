// The second screen: all limiters' answers to one key.
import { Bar } from './charts.js';
import { html, useEffect, useState } from './lib.js';
import { isAmbiguous } from './command.js';
import { asOf, multiplied, tierText } from './plan.js';
import { Act, authorOf, effectOf, Key, Problem, Time, Undo, undoText, verbOf } from './parts.js';
import { Failure } from './outage.js';
import { Past, usePast } from './past.js';
import { SlotUse } from './slots.js';
import { post, useAnswer, useApp } from './state.js';
import {
  count,
  endOf,
  keyText,
  limitsText,
  many,
  originText,
  percent,
  printable,
  shortened,
  span,
} from './text.js';
import { hasNoLimit, placeOf, recentText, verdictOf } from './verdict.js';
import { atTime } from './zone.js';

/** @param {string} key @param {string | undefined} by */
const keyPath = (key, by) =>
  `#/key/${encodeURIComponent(key.toWellFormed())}${by ? `?by=${encodeURIComponent(by)}` : ''}`;

/** @param {any} props */
export function KeySearch({ value = '', id }) {
  const [key, setKey] = useState(value);
  useEffect(() => setKey(value), [value]);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (key.trim() !== '') location.hash = keyPath(key, undefined);
  };
  return html`<form role="search" class="search" onSubmit=${submit}>
    <label
      ><span class="hidden">Find a key</span
      ><input
        id=${id}
        type="search"
        autocomplete="off"
        spellcheck="false"
        placeholder="A key, an address, a network"
        value=${key}
        onInput=${(/** @type {any} */ event) => setKey(event.target.value)} /></label
    ><kbd aria-hidden="true">/</kbd>
  </form>`;
}

/** @param {any} props */
export function KeyScreen({ of, by }) {
  return html`<div class="narrow">
    <h2 class="screen">A key</h2>
    <p class="quiet">The answer of every limiter, dimension and tier. Nothing is charged.</p>
    <${KeySearch} value=${of ?? ''} id="key" />${of ? html`<${Answers} of=${of} by=${by} />` : ''}
  </div>`;
}

/** @param {any} props */
function Answers({ of, by }) {
  const { parts } = useApp();
  const ask = () => post('api/key', { key: of, ...(by && { dimension: by }) });
  const answer = useAnswer(ask, [of, by], 5000);
  const past = usePast(of, by);
  if (answer.isLoading) return html`<p class="quiet" role="status">Asking all limiters …</p>`;
  if (!answer.value) return html`<${Problem} text=${answer.error} />`;
  const { views, changes, isNetwork } = answer.value;
  // A denial matters more than an admission, and both more than an answer that nothing is known.
  const weight = (/** @type {any} */ view) =>
    view.allowed === false && view.likely ? 0 : view.stored ? 1 : view.allowed === null ? 3 : 2;
  const sorted = [...views].sort((a, b) => weight(a) - weight(b));
  const isPlain = (/** @type {any} */ view) =>
    !view.likely || (view.allowed !== false && !view.stored && !view.override);
  const shown = sorted.filter((view) => !isPlain(view));
  const others = sorted.filter(isPlain);
  // A ban and the charges of a key are not of a tier, so only one of the answers of a limiter has their buttons.
  const all = [...shown, ...others];
  const isFirst = (/** @type {any} */ view) => all.find((each) => placeOf(each) === placeOf(view)) === view;
  return html`<${Failure} answer=${answer} />
    ${isNetwork ? html`<${Network} of=${of} parts=${parts} />` : html`<${Verdict} views=${views} denials=${past.value?.denials} />`}
    ${!isNetwork && html`<${ResetAll} of=${of} places=${recordedIn(views)} shared=${chargedWithin(views)} />`}
    ${shown.map((view) => html`<${Answer} view=${view} row=${parts[`row ${view.name}`]} typed=${of} places=${recordedIn(views)} left=${chargedElsewhere(views, view)} shared=${chargedWithin(views)} isFirst=${isFirst(view)} />`)}
    ${
      others.length > 0 &&
      html`<details class="others" open=${shown.length === 0 && others.length === 1}>
        <summary>
          ${shown.length === 0 ? 'It could belong to' : `No record in ${many(others.length, 'other answer')}`}:
          ${shortened(printable([...new Set(others.map((view) => view.name))].join(', ')), 90)}
        </summary>
        ${others.map((view) => html`<${Answer} view=${view} row=${parts[`row ${view.name}`]} typed=${of} places=${recordedIn(views)} left=${chargedElsewhere(views, view)} shared=${chargedWithin(views)} isFirst=${isFirst(view)} />`)}
      </details>`
    }
    ${isNetwork ? '' : html`<${Past} answer=${past} />`}
    <section>
      <h3>Changes of this key, and of all keys</h3>
      ${
        changes.length === 0
          ? html`<p class="quiet">There are none.</p>`
          : html`<ol class="changes">
              ${changes.map(
                (/** @type {any} */ row) =>
                  html`<li>
                    <p>
                      <b>${authorOf(row)}</b> ${verbOf(row)} ${objectText(row, of)} in
                      ${printable(row.name)}${undoText(row)}
                      <span class="effect">${effectOf(row)}</span>
                    </p>
                    ${row.reason && html`<p class="reason">${printable(row.reason)}</p>`}
                    <p class="meta"><${Time} at=${row.at} /><${Undo} row=${row} rows=${changes} /></p>
                  </li>`,
              )}
            </ol>`
      }
    </section>`;
}

/** The object of a change of a key: the key itself, its network, or an import with it. @param {any} row @param {string} of @returns {string} */
function objectText({ action, key, network, keys }, of) {
  if (action === 'import') return keys === 1 ? 'it' : `it and ${many(keys - 1, 'other key')}`;
  if (network !== undefined && network !== of) return `its network ${keyText(network)}`;
  return key === undefined && network === undefined ? 'all keys' : 'it';
}

/** All answers in a sentence. @param {any} props */
function Verdict({ views, denials }) {
  const { parts } = useApp();
  const { text, mood } = verdictOf(
    views,
    (/** @type {string} */ name) => parts[`row ${name}`],
    recentText(denials ?? [], atTime),
  );
  return html`<p class=${`verdict ${mood}`.trim()} role="status">
    <i class="dot" aria-hidden="true"></i> ${text}
  </p>`;
}

/** The reset of a key wherever it has a record. @param {any} props */
function ResetAll({ of, places, shared }) {
  if (places.length < 2) return null;
  const raw = of.trim() === '' && { raw: true };
  const change = { action: 'reset', key: of, all: true, ...raw, places, shared };
  return html`<p><${Act} label=${`Reset all ${many(places.length, 'answer')}`} change=${change} /></p>`;
}

/** The limiters and dimensions with a record of the key. @param {any[]} views @returns {{ name: string, dimension?: string }[]} */
const recordedIn = (views) => {
  const places = views
    .filter((each) => each.stored && !each.within)
    .map(({ name, dimension }) => ({ name, ...(dimension !== 'key' && { dimension }) }));
  return [...new Map(places.map((place) => [JSON.stringify(place), place])).values()];
};

/** The units that a key may have: a bucket's burst, the share of a tenant, or the limit. @param {any} policy @returns {number} */
const quotaOf = ({ limit, burst = limit, share = burst }) => share;

/** @param {any} policy */
const isUsed = (policy) => (policy.used ?? quotaOf(policy) - policy.remaining) > 0;

/** The places with charges, as text. @param {any[]} views @returns {string[]} */
const chargedPlaces = (views) => [
  ...new Set(
    views
      .filter((each) => each.policies.some(isUsed))
      .map(
        (each) => `${each.dimension}${each.within ? ` within ${keyText(each.within)}` : ''} in ${each.name}`,
      ),
  ),
];

/** The places with charges that a reset in the dimension of an answer leaves. @param {any[]} views @param {any} view */
const chargedElsewhere = (views, { dimension }) =>
  chargedPlaces(views.filter((each) => each.dimension !== dimension));

/** The charges of a tenant, which a reset in all places leaves. @param {any[]} views */
const chargedWithin = (views) => chargedPlaces(views.filter((each) => each.within));

/** The key of a tenant's shared limit, which alone can be reset. @param {any} props */
function OfTenant({ within }) {
  const isHidden = typeof within !== 'string';
  const space = isHidden ? -1 : within.indexOf(' ');
  return html`<p class="quiet">
    A tenant has no charges of its own. To reset the whole limit:
    <${Key}
      ...${isHidden ? { of: within } : { of: within.slice(space + 1), dimension: within.slice(0, space) }}
    />
  </p>`;
}

/** The changes of all keys of a network. @param {any} props */
function Network({ of, parts }) {
  const rows = Object.keys(parts)
    .filter((part) => part.startsWith('row ') && parts[part].bansBy.includes('key'))
    .map((part) => parts[part].name)
    .sort();
  return html`<p class="verdict" role="status">A network</p>
    <p class="quiet">Its addresses have answers of their own. A ban or a reset is for all of them.</p>
    ${rows.map(
      (name) =>
        html`<article class="answer">
          <header><h3>${printable(name)}</h3></header>
          <div class="acts">
            <${Act} label="Ban" kind="danger" change=${{ action: 'ban', name, key: of }} />
            <${Act} label="Unban" change=${{ action: 'unban', name, key: of }} />
            <${Act} label="Reset" change=${{ action: 'reset', name, key: of }} />
          </div>
        </article>`,
    )}`;
}

/** @param {any} props */
function Answer({ view, row, typed, places, left, shared, isFirst }) {
  const { name, dimension, within, tier, likely, allowed, reason, retryAfterMs } = view;
  const { policies, bannedForMs, override, warnings, lacksSlots } = view;
  const state = allowed === null ? 'unknown' : allowed ? 'admitted' : 'denied';
  const subject = {
    ...{ name, key: typed },
    ...(dimension !== 'key' && { dimension }),
    ...(isAmbiguous(typed) && typed === view.key && typed.trim() === '' && { raw: true }),
  };
  return html`<article class=${`answer ${state}`}>
    <header>
      <h3>
        ${printable(name)}${dimension !== 'key' ? html` <span class="chip">${printable(dimension)}</span>` : ''}${within ? html` <span class="chip">within ${keyText(within)}</span>` : ''}${tier ? html` <span class="chip">tier ${printable(tier)}</span>` : ''}
      </h3>
      <p>
        <b class=${state === 'denied' ? 'bad' : state === 'admitted' ? 'good' : ''}
          >${hasNoLimit(view, row) ? 'No limit, only bans' : state === 'unknown' ? 'No answer' : state === 'admitted' ? 'Admitted' : likely ? 'Denied' : `Denied if the key is ${tierText(tier ?? '')}`}</b
        >${reason && reason !== 'banned' ? ` by ${printable(view.policy ?? deciding(policies) ?? reason)}` : reason === 'banned' ? ', banned' : ''}${retryAfterMs ? html` <span class="quiet">${reason === 'banned' && retryAfterMs - bannedForMs > 1000 ? `for ${span(bannedForMs)}, then by a limit, in all for ${span(retryAfterMs)}` : endOf({ retryAfterMs, lacksSlots })}</span>` : ''}
      </p>
    </header>
    ${view.key !== typed && html`<p class="quiet">The limiter's key: <code>${shortened(printable(view.key), 120)}</code></p>`}
    ${bannedForMs > 0 && html`<p>Banned${view.bannedBy ? html` by <b>${printable(view.bannedBy)}</b>, ${span(bannedForMs)} left${view.banReason ? `: ${printable(view.banReason)}` : ''}` : `, ${span(bannedForMs)} left, ${originText(view.banOrigin ?? { by: null, reason: view.banReason }, row?.banRule)}`}</p>`}
    ${override && html`<p>Override${override.all ? ' of all keys' : ''}${override.by ? html` by <b>${printable(override.by)}</b>` : ''}: <code>${limitsText(override.change)}</code>${override.until ? `, ${span(new Date(override.until).getTime() - Date.now())} left` : ''}${override.reason ? html`: ${printable(override.reason)}` : ''}</p>`}
    ${policies.map((/** @type {any} */ policy) => {
      const { limit } = policy;
      const share = quotaOf(policy);
      const used = Math.max(0, share - policy.remaining);
      return html`<div class="use">
        <span
          ><code>${printable(policy.name)}</code>
          <span class="quiet"
            >${policy.share === undefined ? '' : `a share of ${count(share)} of `}${count(limit)} per
            ${span(policy.windowMs)}${policy.shadow ? ', shadow' : ''}</span
          ></span
        ><${Bar}
          share=${share > 0 ? used / share : 1}
          kind=${policy.allowed ? '' : 'bad'}
          label=${`${percent(used, Math.max(share, 1))} used`}
        /><span class="number"
          >${count(used)} used,
          <b>${count(policy.remaining)}</b>
          left${policy.resetAfterMs > 0 && used > 0 && policy.algorithm !== 'concurrency' ? html` <span class="quiet">full again in ${span(policy.resetAfterMs)}</span>` : ''}</span
        >
      </div>`;
    })}
    ${view.slots && html`<${SlotUse} name=${name} ...${view.slots} />`}
    ${warnings.map((/** @type {any} */ warning) => html`<p class="warn">${printable(warning.message)}</p>`)}
    ${within ? html`<${OfTenant} within=${within} />` : html`<${Acts} ...${{ row, subject, tier, bannedForMs, override, places, left, shared, isFirst }} />`}
  </article>`;
}

/** The changes of a key. @param {any} props */
function Acts({ row, subject, tier, bannedForMs, override, places, left, shared, isFirst }) {
  const limits = (/** @type {number} */ factor) =>
    multiplied(...asOf(row, subject, { override, bannedForMs }), factor, tier ?? '');
  return html`<div class="acts">
    ${isFirst && (bannedForMs > 0 || row?.bansBy.includes(subject.dimension ?? 'key')) && (bannedForMs > 0 ? html`<${Act} label="Unban" change=${{ action: 'unban', ...subject }} />` : html`<${Act} label="Ban" kind="danger" change=${{ action: 'ban', ...subject }} />`)}
    ${row && row.overridden !== null && html`${isFirst && override && !override.all ? html`<${Act} label="End override" change=${{ action: 'remove', ...subject }} />` : ''}<${Act} label="Limits × 2" change=${limits(2)} /><${Act} label="× ½" change=${limits(0.5)} /><${Act} label="× 10" change=${limits(10)} />`}
    ${isFirst && html`<${Act} label="Reset" change=${{ action: 'reset', ...subject, ...(places.length > 1 && { places }), left, shared }} />`}
  </div>`;
}

/** The first policy that denies. @param {any[]} policies */
const deciding = (policies) => policies.find((policy) => !policy.allowed && !policy.shadow)?.name;
