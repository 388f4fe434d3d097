// The fields of a change of limits: the tier, the factor, and the limit of each policy.
import { html } from './lib.js';
import { banText, changeOf, commonParts, completed, isLimit, tierText, tierTexts } from './plan.js';
import { useApp } from './state.js';
import { printable } from './text.js';

const FACTORS = /** @type {const} */ ([
  [0.5, '× ½'],
  [2, '× 2'],
  [10, '× 10'],
]);

/** The fields for the tier (to change its limits, or to move the key to it) and for the factor. @param {any} props */
export function Plan({ change, update }) {
  const { plan } = change;
  const { sets, isForAll, isFixed = false, tiers, at, factor } = plan;
  const common = commonParts(plan);
  const names = new Set(common.map(({ name }) => name));
  const differing = sets
    .flatMap((/** @type {any} */ { parts }) => parts)
    .filter((/** @type {any} */ { name }) => !names.has(name));
  const isMove = change.change?.tier !== undefined && at === undefined;
  const choose = (/** @type {object} */ fields) => {
    const next = { ...plan, ...fields };
    update({ plan: next, change: changeOf(next) });
  };
  const pick = (/** @type {string} */ value) => {
    if (value.startsWith('tier '))
      update({ plan: { ...plan, at: undefined }, change: { tier: value.slice(5) } });
    else choose({ at: value === '' ? undefined : value === 'all' ? 'all' : Number(value) });
  };
  const also =
    tiers.length > 0 || sets.length > 1
      ? tierTexts({ ...plan, at: isMove ? undefined : at }, change.change)
      : [];
  const row = useApp().parts[`row ${change.name}`];
  const bans = row && banText(row, plan, change.change);
  return html`${
    !isFixed &&
    (sets.length > 1 || tiers.length > 0) &&
    html`<label class="field"
      ><span>Change</span
      ><select
        name="tier"
        value=${isMove ? `tier ${change.change.tier}` : (at ?? '')}
        onChange=${(/** @type {any} */ event) => pick(event.target.value)}
      >
        ${at === undefined && !isMove && html`<option value="">choose a tier …</option>`}
        ${(isForAll || change.all) && common.length > 0 && sets.length > 1 && html`<option value="all">${isForAll ? 'the limits in every tier' : 'the limits that are the same in every tier'}</option>`}
        ${sets.map((/** @type {any} */ { tier }, /** @type {number} */ i) => html`<option value=${i}>the limits ${tierText(tier)}</option>`)}
        ${tiers.map((/** @type {string} */ tier) => html`<option value=${`tier ${tier}`}>to the tier ${printable(tier)}</option>`)}
      </select></label
    >`
  }
  ${
    !isFixed &&
    !isMove &&
    at !== undefined &&
    html`<div class="chips" role="group" aria-label="Multiply the limits">
      ${FACTORS.map(([value, label]) => html`<button type="button" class="small" aria-pressed=${factor === value} onClick=${() => choose({ factor: value })}>${label}</button>`)}
    </div>`
  }
  ${at === 'all' && differing.length > 0 && html`<p class="quiet">${printable([...new Set(differing.map((/** @type {any} */ { name }) => name))].join(', '))} stays, because its limit differs between tiers, and a change is for all of them. To change it, choose the tier to start from.</p>`}
  ${
    also.length > 0 &&
    html`<div class="warn">
      ${isMove ? 'The limits change for requests' : 'A change names policies, so it is also for requests'}
      <ul>
        ${also.map((text) => html`<li>${text}</li>`)}
      </ul>
    </div>`
  }
  ${bans && html`<p class="warn">${bans}</p>`}`;
}

/** The new limits of an override, by policy. @param {any} props */
export function Limits({ change, given, update }) {
  if (change.plan?.at === undefined && change.change?.tier !== undefined) return null;
  const texts = typeof change.change === 'string' ? { '': change.change } : (change.change ?? {});
  const whole = completed(change, given);
  const set = (/** @type {string} */ name, /** @type {string} */ text) =>
    update({ change: name === '' ? text : { ...texts, [name]: text } });
  return Object.entries(texts).map(([name, text]) => {
    const limit = name === '' ? whole : whole[name];
    return html`<label class="field"
      ><span>${name === '' ? 'Limit' : `Limit of ${printable(name)}`}</span>
      <input
        value=${text}
        required
        spellcheck="false"
        autocomplete="off"
        aria-invalid=${!isLimit(limit)}
        onInput=${(/** @type {any} */ event) => set(name, event.target.value)}
      />${!isLimit(limit) ? html`<span class="bad" role="alert">Write a number and a window, such as 10/1m.</span>` : limit !== text ? html`<span>${printable(limit)}</span>` : ''}</label
    >`;
  });
}
