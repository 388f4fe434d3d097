import type { TenantState } from '../../algorithms/shares/sharing.js';
import type { Calls } from './calls.js';

/** The bytes before the cells of a tenant's state, the numbers of a cell, and the position of the used units: see `algorithms/shares/shares.lua`. */
const HEAD = 53;
const NUMBERS = 4;
const USED = 2;

/** The start, the mark and the weight, at positions in bits. */
const NUMBERS_OF_HEAD = ['GET', 'u48', '0', 'GET', 'u48', String(8 * 13), 'GET', 'u16', String(8 * 19)];

/** Reads the state of a tenant, or undefined. Redis reads the binary numbers, because clients take values to be texts. */
export async function readTenant(
  calls: Calls,
  key: string,
  segments: number,
): Promise<TenantState | undefined> {
  const length = Number(await calls.call('STRLEN', key));
  const bytes = (length - HEAD) / (NUMBERS * segments);
  if (![2, 4, 6].includes(bytes)) return undefined;
  const cells = Array.from({ length: segments }, (_, i) => [
    ...['GET', `u${8 * bytes}`],
    String(8 * (HEAD + bytes * (NUMBERS * i + USED))),
  ]);
  const reply = await calls.call('BITFIELD_RO', key, ...NUMBERS_OF_HEAD, ...cells.flat());
  const [start = 0, mark = 0, weight = 0, ...used] = (reply as (number | string)[]).map(Number);
  return { start, mark, weight, used };
}
