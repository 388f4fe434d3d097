// The third screen: the keys that another limit would deny.
import { scaled, scaledPolicy } from './command.js';
import { html, useEffect, useState } from './lib.js';
import { banText, planOf, setsOf, tierText } from './plan.js';
import { Failure } from './outage.js';
import { Act, Command, Key } from './parts.js';
import { get, post, useAnswer, useApp } from './state.js';
import { causeText, count, many, percent, printable } from './text.js';
import { above, isSliding, partAbove, usersAbove } from './use.js';
import { atTime } from './zone.js';

const STEPS = 200;
const WIDTH = 640;
const HEIGHT = 170;

/** @param {any} props */
export function WhatIfScreen({ name }) {
  const { parts } = useApp();
  const rows = Object.keys(parts)
    .filter((part) => part.startsWith('row '))
    .map((part) => parts[part])
    .filter((row) => setsOf(row).length > 0)
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  const busiest = [...rows].sort(
    (a, b) => b.rates.denied + b.rates.admitted - a.rates.denied - a.rates.admitted,
  )[0];
  // Another limiter in place of the requested one would be mistaken for it.
  const row = name ? rows.find((each) => each.name === name) : busiest;
  return html`<div class="narrow">
    <h2 class="screen">What if</h2>
    <p class="quiet">
      The keys that another limit would deny, by their requests of the last hour; of limiters with tiers, by
      their use now, in the tier that you choose. A key counts once in each window of the policy.
    </p>
    ${
      rows.length > 0
        ? html`<label class="field row"
              ><span>Limiter</span
              ><select
                value=${row?.name ?? ''}
                onChange=${(/** @type {any} */ event) => (location.hash = `#/what-if/${encodeURIComponent(event.target.value)}`)}
              >
                ${!row && html`<option value="">choose a limiter …</option>`}
                ${rows.map((each) => html`<option value=${each.name}>${printable(each.name)}</option>`)}
              </select></label
            >${row ? html`<${Uses} key=${row.name} row=${row} />` : html`<${NoUse} name=${name} row=${parts[`row ${name}`]} />`}`
        : html`<p class="quiet">
            ${parts.store?.state === 'down' ? 'Unknown: the store does not answer.' : 'No limiter with fixed policies is known.'}
          </p>`
    }
  </div>`;
}

/** The reason why a limiter has no answer. @param {any} props */
function NoUse({ name, row }) {
  const why = !row
    ? 'No limiter of this name is known'
    : row.dynamic
      ? 'The policies of this limiter depend on the request'
      : 'This limiter has no policy with a limit';
  return html`<p class="problem" role="alert">${printable(name)}: ${why}.</p>`;
}

/** The reason why the keys that a limit would deny are not known. Empty if they are. @param {any} part */
function whyNotKnown({ rest }) {
  if (/^concurrency\b|"concurrency"/.test(rest))
    return 'A slot is taken until its request ends, so the requests that another number of slots would deny are not known.';
  if (/ share |"share"/.test(rest))
    return 'Tenants share this limit. Another limit changes the share of each, so the tenants that it would deny are not known.';
  return '';
}

/**
 * The use of a policy: of the last hour, as counted; or the present one of the sampled keys in a tier, because counts are of all tiers.
 *
 * @param {any} part @param {boolean} isNow @param {any} use @param {any} sample
 */
const useOf = (part, isNow, use, sample) =>
  isNow
    ? { counts: use && sample?.use[0] > 0 ? sample.use : undefined, units: sample?.used ?? 0 }
    : { counts: use?.use[part.name], units: use?.units[part.name] ?? 0 };

/** @param {any} props */
function Uses({ row }) {
  const { name } = row;
  const sets = setsOf(row);
  const isTiered = Object.keys(row.tiers).length > 0;
  const parts = sets.flatMap(({ tier, parts: own }) => own.map((each) => ({ ...each, tier })));
  const [chosen, setIndex] = useState(0);
  // Deployments change policies while the page is open.
  const index = Math.min(chosen, parts.length - 1);
  const part = parts[index];
  const labelOf = (/** @type {any} */ each) =>
    `${printable(each.name)}${isTiered ? ` ${tierText(each.tier)}` : ''}`;
  const why = whyNotKnown(part);
  const isNow = !why && parts.some((each) => each.name === part.name && each.rest !== part.rest);
  const use = useAnswer(() => get(`api/use?name=${encodeURIComponent(name)}`), [name], 30_000);
  const sample = useAnswer(
    () =>
      why
        ? Promise.resolve(null)
        : post('api/sample', { name, policy: part.name, ...(isTiered && { tier: part.tier }) }),
    [name, part.name, part.tier, why],
  );
  const [limit, setLimit] = useState(part.limit);
  useEffect(() => setLimit(part.limit), [part.limit, index]);
  const { counts, units } = why ? {} : useOf(part, isNow, use.value, sample.value);
  const text = scaled(part.rest, limit / part.limit);
  const named = part.isNamed ? `${/[\s="[{]/.test(part.name) ? JSON.stringify(part.name) : part.name}=` : '';
  const whole = `${named}${scaledPolicy(part.rest, limit / part.limit).replace(/ shadow\b/, '')}`;
  const plan = { ...planOf(row, { all: true }, part.tier), isFixed: true };
  const to = parts.length === 1 && !isTiered && !part.isNamed ? text : { [part.name]: text };
  const bans = banText(row, plan, to);
  const change = {
    action: 'override',
    name,
    all: true,
    ...{ for: '1h', hasOwnLength: true },
    change: to,
    // The plan of a limiter with tiers has the warning about bans.
    ...(isTiered ? { plan } : bans && { facts: [bans] }),
  };
  return html`${parts.length > 1 && html`<div class="chips" role="group" aria-label="Policy">${parts.map((each, i) => html`<button type="button" aria-pressed=${i === index} onClick=${() => setIndex(i)}>${labelOf(each)}</button>`)}</div>`}
    <section class="card">
      <${Distribution}
        part=${part}
        counts=${counts}
        admitted=${units ?? 0}
        why=${why}
        isNow=${isNow}
        levels=${use.value?.levels}
        limit=${limit}
        setLimit=${setLimit}
        answer=${isNow && !use.isLoading ? sample : use}
        in=${isTiered ? tierText(part.tier) : ''}
      />
      ${isNow && html`<${Judged} sample=${sample.value} tier=${part.tier} />`}
      ${use.value && html`<${Requests} name=${name} policy=${part.name} use=${use.value} />`}
      ${bans && html`<p class="warn">${bans}</p>`}
      ${!why && html`<${Near} sample=${sample} part=${part} limit=${limit} isTiered=${isTiered} />`}
    </section>
    <section class="card">
      <h3>Try it without denying anybody</h3>
      <p class="quiet">Deploy the limit as a shadow: it counts and reports, and never denies.</p>
      <${Command} text=${shadowText(`${whole} shadow`, part.tier)} label="The policy as a shadow" />
    </section>
    <section class="card">
      <h3>Apply it for an hour</h3>
      ${
        row.overridden === null
          ? html`<p class="quiet">
              The limits of this limiter are fixed. Create it with <code>overrides: true</code>.
            </p>`
          : html`<p class="quiet">An override of all keys. It ends by itself.</p>
              <${Act} label="Override all keys for 1 h" change=${change} /><${ReadOnly} />`
      }
    </section>`;
}

/** The options of a limiter with a policy as a shadow. @param {string} policy @param {string} tier */
function shadowText(policy, tier) {
  const quoted = (/** @type {string} */ text) => `'${text.replace(/[\\']/g, '\\$&')}'`;
  if (!tier) return `policies: [${quoted(policy)}]`;
  return `tiers: { ${/^[a-z_]\w*$/i.test(tier) ? tier : quoted(tier)}: [${quoted(policy)}] }`;
}

/** The keys that the present use is of. @param {any} props */
function Judged({ sample, tier }) {
  if (!sample) return null;
  const { count: own, others, isCut } = sample;
  const left =
    others > 0
      ? ` ${many(others, 'key')} ${others === 1 ? 'is' : 'are'} left out, because the use shows another tier.`
      : '';
  return html`<p class="quiet">
    Judged ${tierText(tier)}: the use now of ${isCut ? 'the first ' : ''}${many(own, 'key')} that may be
    ${tierText(tier)}, because the counts of the last hour are of all tiers together.${left}
  </p>`;
}

function ReadOnly() {
  const { me } = useApp();
  return me ? null : html`<p class="quiet">You may read this page, and not change limits.</p>`;
}

/** @param {any} props */
function Distribution({ part, counts, admitted, why, isNow, levels, limit, setLimit, answer, ...given }) {
  const [id] = useState(() => `limit-${Math.random().toString(36).slice(2)}`);
  const all = counts?.[0] ?? 0;
  const most = part.limit;
  // Limits are multiples of a step, because operators want round ones.
  const step = Math.max(1, Math.round(most / STEPS));
  const denied = counts ? above(levels, counts, limit / most) : 0;
  const units = counts ? admitted * partAbove(levels, counts, limit / most) : 0;
  const bars = counts
    ? levels.map((/** @type {number} */ level, /** @type {number} */ i) => ({
        from: level,
        to: levels[i + 1] ?? 1,
        keys: Math.max(0, counts[i] - (levels[i + 1] === undefined ? 0 : counts[i + 1])),
      }))
    : [];
  const top = Math.max(1, ...bars.map((/** @type {any} */ bar) => bar.keys));
  const labels = bars.map((/** @type {any} */ bar) => count(Math.ceil(bar.from * part.capacity)));
  const column = WIDTH / Math.max(1, bars.length);
  const y = (/** @type {number} */ keys) =>
    keys === 0 ? 0 : Math.max(2, ((HEIGHT - 14) * Math.sqrt(keys)) / Math.sqrt(top));
  const when = isNow ? 'now' : 'in the last hour';
  const uses = isNow ? 'use' : 'used';
  const isRough = !isNow && limit < most && isSliding(part.rest);
  return html`<h3>${printable(part.name)} <span class="quiet">${printable(part.rest)} ${given.in}</span></h3>
    <${Failure} answer=${answer} />
    ${
      counts
        ? html`<svg
            class="distribution"
            viewBox=${`0 0 ${WIDTH} ${HEIGHT + 22}`}
            role="img"
            aria-label=${`Use of ${part.name} by keys ${when}`}
          >
            ${bars.map((/** @type {any} */ bar, /** @type {number} */ i) => html`<rect class=${bar.from * most >= limit || ((bar.from + bar.to) / 2) * most > limit ? 'over' : ''} x=${i * column + 2} width=${column - 4} y=${HEIGHT - y(bar.keys)} height=${y(bar.keys)} rx="2"><title>${`${percent(bar.keys, all)} of the keys ${uses} ${Math.ceil(bar.from * part.capacity)} to ${Math.ceil(bar.to * part.capacity)}`}</title></rect>${labels[i] !== labels[i - 1] && (i % 2 === 0 || i === bars.length - 1) ? html`<text class=${i % 4 === 0 ? '' : 'minor'} x=${i * column + column / 2} y=${HEIGHT + 16} text-anchor="middle">${labels[i]}</text>` : ''}`)}
          </svg>`
        : html`<p class="quiet">
            ${why ? why : answer.isLoading ? 'Reading …' : !answer.value ? 'Unknown.' : isNow ? (answer.value.count > 0 ? 'No key uses it at this moment, as is usual for a short window or a bucket that refills. Choose a longer window, or a shadow, to judge it.' : 'No key has a record in this tier.') : 'No use was recorded in the last hour. A store with counts: false records none.'}
          </p>`
    }
    <label class="slider" for=${id}
      ><span>Limit</span
      ><output
        ><b>${count(limit)}</b>${limit === most ? ' (configured)' : `, configured ${count(most)}`}</output
      ></label
    >
    <input
      id=${id}
      type="range"
      min=${step > 1 ? 0 : 1}
      max=${Math.max(2, most)}
      step=${step}
      value=${limit}
      aria-valuetext=${counts ? `${limit}, denies about ${percent(denied, all)} of the keys` : String(limit)}
      onInput=${(/** @type {any} */ event) => setLimit(Math.max(1, Math.min(most, Number(event.target.value))))}
    />
    ${
      counts
        ? html`<p class="verdict-line" role="status">
              ${limit === most ? 'The configured limit' : 'A limit'} of <b>${count(limit)}</b> ${given.in}
              ${limit === most ? (isNow ? 'denies' : 'denied') : isNow ? 'would deny now' : 'would have denied'}
              ${limit === most || denied >= all ? '' : 'about'}
              <b class=${denied > 0 ? 'bad' : 'good'}>${percent(denied, all)}</b> of the
              keys${isNow ? ` with a use (${count(denied)} of ${count(all)})` : ' in a window'}${limit < most ? html`, and about <b>${count(units)}</b> of ${count(admitted)} ${isNow ? 'used' : 'admitted'} units (${percent(units, admitted)})` : ''}.
            </p>
            ${isRough && html`<p class="quiet">About: these are counts of whole windows, and a sliding window frees units only after its oldest segment, so units may be a third more or fewer. <code>headgate replay</code> of an access log has the exact number.</p>`}`
        : ''
    }`;
}

/** The requests that the limiter denied since its first one in the last hour. @param {any} props */
function Requests({ name, policy, use: { admitted, denied, policies, reasons, since } }) {
  if (admitted + denied === 0) return '';
  const waits = Object.entries(reasons)
    .filter(([, n]) => n > 0)
    .map(([reason, n]) => `${count(n)} ${causeText({ name: reason, isReason: true })}`);
  const causes = [`${count(policies[policy] ?? 0)} by this limit`, ...waits].join(', ');
  return html`<p class="denials quiet">
    Since ${atTime(since)}, ${printable(name)} denied <b>${count(denied)}</b> of
    ${many(admitted + denied, 'request')}
    (${percent(denied, admitted + denied)})${denied > 0 ? `: ${causes}` : ''}.
  </p>`;
}

/** The sampled keys that use the moved limit, or more, now. @param {any} props */
function Near({ sample, part, limit, isTiered }) {
  if (sample.error) return html`<${Failure} answer=${sample} />`;
  if (sample.isLoading) return html`<p class="quiet">Searching keys …</p>`;
  const { keys = [], count: checked = 0, isCut = false } = sample.value ?? {};
  const over = usersAbove(keys, part, limit);
  const shown = over.slice(0, 12);
  const some = `${isCut ? 'the first ' : ''}${many(checked, 'key')}`;
  const which = isTiered ? `${some} that may be ${tierText(part.tier)}` : some;
  return html`<p class="quiet">
      Of ${which},
      ${over.length === 0 ? 'none uses that much now.' : html`<b>${count(over.length)}${over.length === keys.length && checked > keys.length ? ' or more' : ''}</b> ${over.length === 1 ? 'uses' : 'use'} that much now:`}
    </p>
    ${
      over.length > 0 &&
      html`<ul class="over">
        ${shown.map((/** @type {any} */ each) => html`<li><${Key} of=${each.key} /> <span class="quiet">${count(each.used)}${each.quota === part.capacity ? '' : ` of its own ${count(each.quota)}`}</span></li>`)}${over.length > shown.length ? html`<li class="quiet">and ${count(over.length - shown.length)} more</li>` : ''}
      </ul>`
    }`;
}
