import type { ImportedKey, LoggedChange } from 'headgate/admin';
import type { Show, ShownKey } from './hidden.js';

/** The most keys of an import that a row has. An opened row asks for the others. */
export const FIRST_KEYS = 3;

export interface ImportedRow extends Pick<ImportedKey, 'dimension' | 'forMs'> {
  readonly key: ShownKey;
}

/** A logged change as the page gets it. */
export interface ChangeRow extends Omit<LoggedChange, 'at' | 'key' | 'network' | 'within' | 'imported'> {
  /** ms since 1970. */
  readonly at: number;
  readonly key?: ShownKey;
  readonly network?: ShownKey;
  readonly within?: ShownKey;
  /** The first keys of an import, unless there were too many for the log. */
  readonly imported?: readonly ImportedRow[];
}

/** @param change with at most `FIRST_KEYS` keys of an import */
export function changeRow(change: LoggedChange, show: Show): ChangeRow {
  const { at, key, network, within, imported, ...rest } = change;
  return {
    ...rest,
    at: at.getTime(),
    ...(key !== undefined && { key: show(key) }),
    ...(network !== undefined && { network: show(network) }),
    ...(within !== undefined && { within: show(within) }),
    ...(imported && { imported: importedRows(imported, show) }),
  };
}

export const importedRows = (imported: readonly ImportedKey[], show: Show): ImportedRow[] =>
  imported.flatMap(({ key, dimension, forMs }) =>
    key === undefined ? [] : [{ key: show(key), ...(dimension !== undefined && { dimension }), forMs }],
  );
