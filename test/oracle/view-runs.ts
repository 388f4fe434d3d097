// Runs random sites until a time is over, and looks at the views after each trace.
import { expect } from 'chai';
import fc from 'fast-check';
import { createAdmin, type Admin } from 'headgate/admin';
import { until } from '../admin/stores.js';
import { checkFor } from '../support/random.js';
import { seedOf } from '../support/seeds.js';
import { sites, type Site } from './draw.js';
import { coveringRows, withoutSlices } from './rows.js';
import type { Policy } from './model/types.js';
import { Difference, play, type Scene, type Subject } from './play.js';

const SHRINK_MS = 30_000;
/** The longest time of a run. A slow machine plays fewer sites. */
const MOST_MS = 20_000;

/** Sites of all features. */
export const anySite = fc.constantFrom(...coveringRows().map(withoutSlices)).chain(sites);

/**
 * Whether views can know a site. A database hashes a tenant together with the key of its limit, and a banned key with its dimension. What views
 * list of a shared limit whose key has an override is open (`limited` names other keys than the model at the end of the override). A hashed key
 * with another window or tier is unreadable.
 */
const isKnown = ({ row, limiters }: Site, { secret, isDatabase = false }: Subject): boolean =>
  !(secret && row.has('hashKeys') && OF_POLICIES.some((name) => row.has(name))) &&
  limiters.every(
    ({ ban, policies, overrides }) =>
      (!(secret && isDatabase && row.has('hashKeys')) ||
        ((ban?.by ?? 'key') === 'key' && !isShared(policies))) &&
      !(overrides && isShared(policies)),
  );

const OF_POLICIES = ['overrides of a window', 'overrides by tier'] as const;

const isShared = (policies: readonly Policy[]): boolean => policies.some(({ share }) => share !== undefined);

/**
 * HEADGATE_ORACLE_SEED plays other sites, and HEADGATE_ORACLE_MS plays them for this time, however many.
 *
 * @param most the most sites, which take about `MS`
 * @param view looks at the views, and returns a difference
 * @param draw the sites
 */
export async function agree(
  subject: Subject,
  most: number,
  view: (scene: Scene) => Promise<string | undefined>,
  draw = anySite,
): Promise<void> {
  const seed = seedOf('HEADGATE_ORACLE_SEED', `views ${subject.name}`);
  let [looked, differing] = [0, 0];
  const watched: Subject = {
    ...subject,
    async create(...args) {
      const store = await subject.create(...args);
      // In memory, keys have names from the first administration on.
      createAdmin(store);
      return store;
    },
  };
  const property = fc.asyncProperty(
    draw.filter((site) => isKnown(site, subject)),
    async (site) => {
      try {
        await play(watched, site, (scene) => (looked++, view(scene)));
      } catch (error) {
        // Differences of decisions are reported by the runs of the oracle itself.
        if (!(error instanceof Difference)) throw error;
        differing++;
      }
    },
  );
  const ms = process.env['HEADGATE_ORACLE_MS'];
  await checkFor(property, {
    seed,
    ...(ms === undefined ? { ms: MOST_MS, most } : { ms: Number(ms), most: Infinity }),
    shrinkMs: SHRINK_MS,
  });
  console.log(`      ${subject.name}, seed ${seed}: ${looked} sites`);
  expect(looked, `sites whose views were looked at, HEADGATE_ORACLE_SEED=${seed}`).to.be.above(4 * differing);
}

/** Times of hours, so that nothing ends while another process looks. */
export function slow({ start, limiters, steps, row }: Site): Site {
  const slowed = (policy: Policy): Policy => {
    const { window, period, maxDelay } = policy;
    return {
      ...policy,
      window: window * FACTOR,
      ...(period && { period: 'month' }),
      ...(maxDelay && { maxDelay: maxDelay * FACTOR }),
    };
  };
  return {
    start,
    row,
    limiters: limiters.map((each) => ({
      ...each,
      policies: each.policies.map(slowed),
      tiers: Object.fromEntries(Object.entries(each.tiers).map(([tier, set]) => [tier, set.map(slowed)])),
      ban: each.ban && {
        ...each.ban,
        within: each.ban.within * FACTOR,
        for: each.ban.for * FACTOR,
        max: MAX_BAN_MS,
      },
    })),
    steps: steps
      .filter(({ kind, change }) => kind !== 'advance' && kind !== 'until' && change !== 'window')
      .map((step) => ({ ...step, ms: step.ms + HOUR_MS })),
  };
}

const FACTOR = 1000;
const HOUR_MS = 3_600_000;
const MAX_BAN_MS = 100 * 24 * HOUR_MS;

/** Resolves when the administration knows the limiters. */
export async function published(admin: Admin, limiters: Scene['limiters']): Promise<void> {
  await until(async () => (await admin.limiters()).limiters.length === limiters.length);
}
