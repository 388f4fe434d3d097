import { createInterface } from 'node:readline/promises';
import { Readable } from 'node:stream';
import { contentOf, readBanLine, withoutPage, type BanLineDefaults, type ImportedBan } from 'headgate/admin';
import { orUsage } from './errors.js';

export interface BanLines {
  readonly bans: readonly (ImportedBan & { readonly line: number })[];
  /** The number of bans that have ended since the lines were written. */
  readonly over: number;
  /** The number of lines of `list --json` that are not about bans. */
  readonly others: number;
}

/**
 * Reads lines of `bans export`, lines of `list --json`, or one key per line.
 *
 * @throws CliError `USAGE` with the number of the wrong line
 */
export async function readBans(
  content: AsyncIterable<Buffer | string>,
  defaults: BanLineDefaults,
): Promise<BanLines> {
  const bans: BanLines['bans'][number][] = [];
  let over = 0;
  let others = 0;
  let number = 0;
  for await (const line of createInterface({ input: Readable.from(content), crlfDelay: Infinity })) {
    number += 1;
    const text = contentOf(line, defaults.raw);
    if (text === undefined) continue;
    const found = orUsage(
      () => readBanLine(text, defaults),
      (message) => `bans import, line ${number}: ${withoutPage(message)}`,
    );
    if (found === undefined) others += 1;
    else if (found.for === 0) over += 1;
    else bans.push({ ...found, line: number });
  }
  return { bans, over, others };
}
