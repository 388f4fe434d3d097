import type { CompiledPolicy } from '../../../contract/policy.js';
import { CROSSINGS_LIFE_MS, MAX_CROSSINGS, type ReadCrossing } from '../../crossings.js';
import { THRESHOLD_TAG } from '../../keys.js';

/** The key of the stream of crossings. It has no colon between the braces, so it is never a limiter's. */
export function streamKey(prefix: string): string {
  return `${prefix}:{thresholds}`;
}

/** The keys of `read-crossings.lua`: the stream, and those of a group of readers. */
export function readerKeys(prefix: string, group: string): [stream: string, last: string, pending: string] {
  const stream = streamKey(prefix);
  return [stream, `${stream}:last:${group}`, `${stream}:pending:${group}`];
}

/** The arguments of `thresholds.lua`. */
export function thresholdArgs(policies: readonly CompiledPolicy[], stream: boolean): string[] {
  const near = policies.map(({ thresholds, traits: { capacity } }) =>
    thresholds ? String(capacity - Math.ceil((thresholds[0]! * capacity) / 1000)) : '-1',
  );
  const texts = policies.map(({ thresholds = [], traits: { capacity } }) =>
    [capacity, ...thresholds].join(' '),
  );
  const head = stream ? [`*${MAX_CROSSINGS} ${CROSSINGS_LIFE_MS}`] : [''];
  return [...near, [...head, ...texts].join('/')];
}

/** An entry of a stream, as XRANGE returns it. */
export type StreamEntry = readonly [id: string, fields: readonly string[]];

/** @param head the beginning of the keys of marks, up to the first brace */
export function readCrossing([id, fields]: StreamEntry, head: string): ReadCrossing {
  const [, mark = '', , level, , used, , limit, , reset] = fields;
  const tag = `}${THRESHOLD_TAG}`;
  const end = mark.indexOf(tag);
  const policy = mark.slice(end + tag.length);
  return {
    ...{ id, at: parseInt(id), who: mark.slice(head.length, end) },
    policy: policy.includes(':') ? policy.slice(policy.indexOf(':') + 1) : 'default',
    ...{ level: Number(level), used: Number(used), limit: Number(limit), resetAfterMs: Number(reset) },
  };
}
