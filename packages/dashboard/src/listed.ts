// The bans and the overrides of an opened limiter, in bounded pages.
import { firstOf } from './first.js';

/** The rows of a page, and the most rows that are read, of which there may be more. */
const PAGE = 50;
const MAX_READ = 500;

/** The first rows of a list, as far as they were read. */
export interface Listed<T> {
  readonly rows: readonly T[];
  /** Whether there are more. */
  readonly isCut: boolean;
}

export async function readListed<T>(items: AsyncIterable<T>): Promise<Listed<T>> {
  const rows = await firstOf(items, MAX_READ + 1);
  return { rows: rows.slice(0, MAX_READ), isCut: rows.length > MAX_READ };
}

/** The rows of the pages that a visitor has opened. @param pages the number in the query, if any */
export function openedRows<T>({ rows }: Listed<T>, pages: string | null): readonly T[] {
  const opened = Math.floor(Number(pages ?? 1));
  return rows.slice(0, opened >= 1 ? opened * PAGE : PAGE);
}

/** The number of rows, of which there may be more if the list was cut. */
export const totalOf = ({
  rows,
  isCut,
}: Listed<unknown>): { readonly total: number; readonly isCut: boolean } => ({
  total: rows.length,
  isCut,
});
