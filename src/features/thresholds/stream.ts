import { CROSSINGS_LIFE_MS, type CrossingSource, type ReadCrossing, THRESHOLD_TAG } from './crossings.js';

/** The key of the stream of crossings. It has no colon between the braces, so it is never a limiter's. */
export function streamKey(prefix: string): string {
  return `${prefix}:{thresholds}`;
}

/** The keys of `read-crossings.lua`: the stream, and those of a group of readers. */
function readerKeys(prefix: string, group: string): [stream: string, last: string, pending: string] {
  const stream = streamKey(prefix);
  return [stream, `${stream}:last:${group}`, `${stream}:pending:${group}`];
}

/** An entry of a stream, as XRANGE returns it. */
type StreamEntry = readonly [id: string, fields: readonly string[]];

interface Calls {
  readonly prefix: string;
  readonly commands: { readonly keyPrefix: string };
  call(command: string, key: string, ...args: readonly string[]): Promise<unknown>;
}

/** The crossings of a stream. @param run runs `read-crossings.lua` */
export function crossingsOn(
  calls: Calls,
  run: (keys: readonly string[], args: string[]) => Promise<unknown>,
): CrossingSource {
  const { prefix, commands } = calls;
  return {
    read: async (group, most, idle) => {
      const args = ['', String(most), String(idle), String(CROSSINGS_LIFE_MS)];
      const entries = (await run(readerKeys(prefix, group), args)) as StreamEntry[];
      const head = `${commands.keyPrefix}${prefix}:{`;
      return entries.map((entry) => readCrossing(entry, head));
    },
    ack: async (group, ids) => void (await calls.call('ZREM', readerKeys(prefix, group)[2], ...ids)),
  };
}

/** @param head the beginning of the keys of marks, up to the first brace */
function readCrossing([id, fields]: StreamEntry, head: string): ReadCrossing {
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
