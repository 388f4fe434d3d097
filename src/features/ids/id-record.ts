import type { FirstDecision } from './contract/ids.js';

export const ID_TAG = 'Q2:';

/** The memory of a charged request with an id. */
export interface IdRecord extends FirstDecision {
  readonly step: number;
  /** The count of repetitions. */
  readonly used: number;
  /** Whether the first decision has changed its charge, so that repetitions may not. */
  readonly isChanged: boolean;
}

/** The place of one id's record, beside the state of the request's first key. */
export interface IdPlace {
  read(): IdRecord | undefined;
  /** @param until the end of the record, ms since the epoch. 0 forgets the record */
  write(record: IdRecord | undefined, until: number): void;
  /** The repetition that has changed the charge of a step. */
  ownerOf(step: number): string | undefined;
  /** @param until the end of the charge, ms since the epoch */
  own(step: number, owner: string, until: number): void;
}

/** The place of an id among the entries of its state. */
export function idAmong(entries: Map<string, readonly [number, ...(string | number)[]]>): IdPlace {
  return {
    read: () => {
      const [, text] = entries.get(ID_TAG) ?? [];
      return typeof text === 'string' ? (JSON.parse(text) as IdRecord) : undefined;
    },
    write: (record, until) => entries.set(ID_TAG, record ? [until, JSON.stringify(record)] : [0]),
    ownerOf: (step) => (entries.get(`${ID_TAG}${step}`) as [number, string] | undefined)?.[1],
    own: (step, owner, until) => entries.set(`${ID_TAG}${step}`, [until, owner]),
  };
}
