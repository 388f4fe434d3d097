import { THRESHOLD_TAG } from './marks.js';
import type { ReadCrossing } from './crossings.js';

/** The key of the stream of crossings. It has no colon between the braces, so it is never a limiter's. */
export function streamKey(prefix: string): string {
  return `${prefix}:{thresholds}`;
}

/** The keys of `read-crossings.lua`: the stream, and those of a group of readers. */
export function readerKeys(prefix: string, group: string): [stream: string, last: string, pending: string] {
  const stream = streamKey(prefix);
  return [stream, `${stream}:last:${group}`, `${stream}:pending:${group}`];
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
