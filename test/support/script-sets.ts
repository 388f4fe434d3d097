// The scripts that limiters can ask for, made by the code that makes the scripts of limiters.
import assert from 'node:assert/strict';
import type { Redis } from 'ioredis';
import { compileBan } from '../../src/features/bans/contract/ban-options.js';
import { compilePolicies } from '../../src/contract/compile-policies.js';
import { AS_CONFIGURED } from '../../src/features/overrides/contract/records.js';
import type { PolicySet } from '../../src/contract/store.js';
import { kindOf } from '../../src/features/features.js';
import { inLine } from '../../src/limiter/waiting/process-line.js';
import { partsOfLooks, Plans } from '../../src/stores/redis/calls/plans.js';
import { escapeKey } from '../../src/stores/keys.js';
import { assemble, scriptNames, type Script } from '../../src/stores/redis/scripts.js';
import { sizeOfLua } from './lua-locals.js';

/** The kinds of policies whose scripts differ. */
export const KINDS = {
  window: '100/1m',
  'shared window': '100/1m by provider share tenant',
  fixed: 'fixed-window 100/1m',
  log: 'sliding-log 100/1m',
  bucket: 'token-bucket 100/1m',
  calendar: 'calendar 100/day',
  slots: 'concurrency 10/30s',
  'shared slots': 'concurrency 10/30s by provider share tenant',
} as const;

export type Kind = keyof typeof KINDS;

/** The features that add parts to scripts. */
export interface ScriptFeatures {
  readonly ban: boolean;
  readonly overrides: boolean;
  readonly ids: boolean;
  readonly thresholds: boolean;
  /** Whether requests wait, so that processes take turns. */
  readonly waits: boolean;
}

const plans = new Plans({ prefix: 'p', text: escapeKey, clock: () => 0, stream: true });

/** The scripts of the limiters with policies of these kinds, in this order. */
export function scriptsOf(kinds: readonly Kind[], features: ScriptFeatures): Script[] {
  const { ban, overrides, ids, thresholds, waits } = features;
  // A shared limit has no thresholds.
  const watched = thresholds ? kinds.findIndex((kind) => !kind.startsWith('shared')) : -1;
  // Thresholds and attempts come together, so that the combinations stay few.
  const counted = thresholds
    ? kinds.findLastIndex((kind) => !kind.startsWith('shared') && kind !== 'slots')
    : -1;
  const texts = kinds.map((kind, i) => {
    const count = i === counted ? ' attempts' : '';
    return `p${i}=${KINDS[kind]}${count}${i === watched ? ' thresholds 80%' : ''}`;
  });
  const set: PolicySet = {
    ...{ name: 'scripts', timeout: 100, ban: compileBan(ban ? { after: 5 } : undefined) },
    policies: texts.length === 0 ? [] : compilePolicies('policies', texts),
    overrides: overrides ? AS_CONFIGURED : undefined,
  };
  const asked = waits ? inLine(set, { process: 1, waits: true, holdMs: undefined }) : set;
  const { evaluate, adjust } = plans.of(asked, kindOf({ id: ids ? 'a' : undefined }));
  // The scripts of `usage`, of changes of several charges, and of the admin's views know no ids and thresholds.
  const kernels = asked.policies.map(({ kernel }) => kernel);
  return [
    ...[evaluate, adjust, assemble('adjust', kernels), assemble('evaluate', kernels, partsOfLooks(set))],
    assemble('evaluate', kernels, [...partsOfLooks(set), 'usage']),
  ];
}

/** The scripts that do not depend on policies, and those of leases. */
export function otherScripts(): Script[] {
  const depending = new Set(['evaluate', 'evaluate-single', 'adjust', 'lease']);
  return [
    ...scriptNames.filter((name) => !depending.has(name)).map((name) => assemble(name)),
    assemble('lease', ['concurrency']),
  ];
}

/** All combinations of features. */
export const FEATURES: readonly ScriptFeatures[] = Array.from({ length: 32 }, (_, bits) => {
  const has = (bit: number): boolean => ((bits >> bit) & 1) === 1;
  return { ban: has(0), overrides: has(1), ids: has(2), thresholds: has(3), waits: has(4) };
});

/** A set of kinds with up to `most` policies, once in some order. */
export function kindsUpTo(most: number): Kind[][] {
  const all = Object.keys(KINDS) as Kind[];
  const from = (first: number, left: number): Kind[][] => [
    [],
    ...(left === 0
      ? []
      : all.slice(first).flatMap((kind, i) => from(first + i, left - 1).map((rest) => [kind, ...rest]))),
  ];
  return from(0, most);
}

/**
 * The most variables of a script: far from the 200 and 60 that Lua allows, so that each feature has room to grow. The largest script charges
 * a shared window and five calendars outright.
 */
const MOST = { locals: 139, upvalues: 39 };

/** The globals of Redis. A name that is in none of them belongs to a block that does not include the line. */
const GLOBALS = new Set([
  ...[
    'redis',
    'struct',
    'KEYS',
    'ARGV',
    'string',
    'table',
    'math',
    'error',
    'pcall',
    'type',
    'unpack',
    'select',
  ],
  ...['tonumber', 'tostring', 'ipairs', 'pairs', 'setmetatable'],
]);

/** Many scripts differ only in their names. */
const sourcesOf = (scripts: Iterable<Script>): Set<string> =>
  new Set(Array.from(scripts, ({ source }) => source));

/** Checks the variables of scripts. @returns the largest sizes */
export function checkSizes(scripts: Iterable<Script>): Record<'locals' | 'upvalues' | 'bytes', number> {
  const largest = { locals: 0, upvalues: 0, bytes: 0 };
  for (const source of sourcesOf(scripts)) {
    const { locals, upvalues, globals } = sizeOfLua(source);
    largest.locals = Math.max(largest.locals, locals);
    largest.upvalues = Math.max(largest.upvalues, upvalues);
    largest.bytes = Math.max(largest.bytes, Buffer.byteLength(source));
    const unknown = [...globals].filter((name) => !GLOBALS.has(name));
    assert.equal(unknown.join(), '', `in the script of ${source.length} characters with these names`);
  }
  assert.ok(largest.locals <= MOST.locals, `${largest.locals} locals, of at most ${MOST.locals}`);
  assert.ok(largest.upvalues <= MOST.upvalues, `${largest.upvalues} upvalues, of at most ${MOST.upvalues}`);
  return largest;
}

/** Compiles scripts on a server. @returns the errors */
export async function loadScripts(client: Redis, scripts: Iterable<Script>): Promise<string[]> {
  const errors: string[] = [];
  const load = async (batch: string[]): Promise<void> => {
    const pipeline = client.pipeline();
    for (const source of batch) pipeline.script('LOAD', source);
    pipeline.script('FLUSH');
    for (const [error] of (await pipeline.exec())!) if (error) errors.push(error.message);
  };
  const batch: string[] = [];
  for (const source of sourcesOf(scripts)) if (batch.push(source) === 50) await load(batch.splice(0));
  await load(batch);
  return errors;
}
