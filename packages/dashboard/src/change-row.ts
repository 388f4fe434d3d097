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

/** The first changes, in which the overrides that one operator made for one reason count as one. */
export function latestOf(changes: readonly LoggedChange[], most: number): readonly LoggedChange[] {
  let count = 0;
  const end = changes.findIndex(({ action, name, by, reason }, i) => {
    const before = changes[i - 1];
    const isNext =
      before?.action === action && before.name === name && before.by === by && before.reason === reason;
    return !(isNext && (action === 'override' || action === 'remove')) && ++count > most;
  });
  return end < 0 ? changes : changes.slice(0, end);
}
