// Reads an access log that was dropped onto the page, with the reader of `headgate replay`.
import { LineReader, type Parsed } from '../../../packages/cli/src/replay/line.js';
import { MAX_REQUESTS } from './settings.js';
import type { AccessLog } from './simulate.js';

/** The first requests of a log, by address, in order of time. @throws Error if no line is a request */
export function readAccessLog(name: string, text: string): AccessLog {
  const reader = new LineReader({
    ...{ keys: [{ dimension: 'key', parts: ['ip'] }], keyField: undefined, match: undefined },
    ...{ subnet: undefined, trustedHops: undefined },
  });
  const found: { time: number; client: string }[] = [];
  let problem = 'unknown format';
  const add = (parsed: Parsed): void => {
    if (typeof parsed === 'string') return;
    if ('problem' in parsed) problem = parsed.problem;
    else
      found.push({
        time: parsed.time,
        client: typeof parsed.key === 'string' ? parsed.key : Object.values(parsed.key).join(' '),
      });
  };
  for (const line of text.split(/\r?\n/)) {
    if (found.length >= MAX_REQUESTS) break;
    if (line !== '') add(reader.read(line));
  }
  reader.rest().forEach(add);
  if (found.length === 0) throw new Error(`${name} has no request that can be read: ${problem}.`);
  found.sort((a, b) => a.time - b.time);
  const start = found[0]!.time;
  return { name, start, requests: found.map(({ time, client }) => ({ at: time - start, client })) };
}
