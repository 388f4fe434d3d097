import { DEFAULT_DIMENSION } from '../contract/key.js';
import type { Reply } from '../contract/reply.js';
import type { PolicySet } from '../contract/store.js';
import type { ListedChange, LoggedChange } from '../stores/journal.js';
import { ownerTextOfAll } from '../features/overrides/record-keys.js';
import { crossingsIn } from '../features/thresholds/crossings.js';
import { escapeKey, escapeName, keyTextOf } from '../stores/keys.js';
import type { Memory } from '../stores/memory/memory-store.js';
import type { Finding } from '../stores/redis/operators/finding.js';
import { LocalState, type ListedRow } from './local-state.js';
import { countsOfMemory } from './kept-counts.js';
import type { OwnedRecord } from './overrides/override-source.js';
import type { CountSource, Owner, State, StateSettings } from './state.js';
import { hashOnly } from './typed-keys.js';

export class MemoryState extends LocalState {
  readonly kind = 'memory';
  readonly crossings: State['crossings'];
  readonly counts?: CountSource;
  protected readonly isCounted: boolean;
  readonly #memory: Memory;

  constructor(memory: Memory, settings: StateSettings) {
    super(memory, memory.announced, undefined, settings);
    this.#memory = memory;
    this.crossings = crossingsIn(memory.stream, () => memory.clock());
    memory.rememberKeys();
    this.isCounted = memory.isCounted;
    if (memory.isCounted) this.counts = countsOfMemory(memory);
  }

  ownerOf(name: string | object, key: string | object, by = DEFAULT_DIMENSION): Owner {
    if (typeof name !== 'string' || typeof key !== 'string') throw hashOnly();
    return ownerIn(by, name, key);
  }

  now(): number {
    return this.#memory.clock();
  }

  rowsOf(owners: readonly Owner[]): (ListedRow | undefined)[] {
    return owners.map((owner) => {
      const [scope, key] = placeOf(owner);
      const table = this.#memory.tables.get(`${scope} ${owner.name as string}`);
      const state = table?.stateOf(key) ?? (owner.slot && table?.stateOf(placeOf(owner, '=')[1]));
      return state && { owner, state };
    });
  }

  *#tables(wanted: string | undefined) {
    for (const [id, table] of this.#memory.tables) {
      const [scope = '', name] = id.split(/ (.*)/s);
      if (wanted === undefined || name === wanted) yield { scope, name: name!, table };
    }
  }

  protected *rows(wanted: string | undefined): Generator<ListedRow> {
    for (const { scope, name, table } of this.#tables(wanted))
      for (const key of table.names ?? []) {
        const state = table.stateOf(key);
        if (state) yield { owner: ownerIn(scope, name, key), state };
      }
  }

  unnamed(wanted: string | undefined): number {
    let count = 0;
    for (const { table } of this.#tables(wanted)) {
      const named = [...(table.names ?? [])].filter((key) => table.find(key, 0) !== 0);
      count += table.size - named.length;
    }
    return count;
  }

  protected lookAt(set: PolicySet, owners: readonly Owner[]): Reply[] {
    return owners.map((owner) => this.#memory.lookAt(...placeOf(owner), set));
  }

  protected append(change: LoggedChange): void {
    this.#memory.log.add(change);
  }

  protected logged(): readonly ListedChange[] {
    return this.#memory.log.newest();
  }

  *records(): Generator<OwnedRecord> {
    for (const [name, record] of this.#memory.recordsOfAll) yield [ownerTextOfAll(name), record];
    for (const { scope, name, table } of this.#tables(undefined))
      for (const [key, record] of table.records) yield [ownerIn(scope, name, key).text, record];
  }

  recordOfAll(name: string): string {
    return this.#memory.recordsOfAll.of(name);
  }

  check(): Promise<readonly Finding[]> {
    const message = 'The state is in the memory of this process. Other processes have their own.';
    return Promise.resolve([{ level: 'ok', code: 'connection', message }]);
  }
}

/** The owner of a key in a table. @param scope as in `Part` */
function ownerIn(scope: string, name: string, text: string): Owner {
  const [first = '', by] = scope.split('/');
  const owner = { scope: escapeName(name), name };
  if (by === undefined)
    return { ...owner, key: text, by: first, text: `${owner.scope}:${keyTextOf(first, text, escapeKey)}` };
  const [, length] = /^(\d*):/.exec(text)!;
  const slotKey =
    length === '' ? undefined : text.slice(length!.length + 1, length!.length + 1 + Number(length));
  const key = text.slice((slotKey === undefined ? 0 : length!.length + 1 + slotKey.length) + 1);
  const slotText = slotKey === undefined ? `%@${first}` : keyTextOf(first, slotKey, escapeKey);
  const whole = `${owner.scope}:${slotText}}%@${by}=${escapeKey(key)}`;
  return { ...owner, key, by, slot: { by: first, key: slotKey }, text: whole };
}

/**
 * The scope and the key of an owner's table.
 *
 * @param sign the sign before a key within another one: an equals sign before the tenant of a shared limit
 */
function placeOf({ by, key, slot }: Owner, sign: ':' | '=' = ':'): [scope: string, key: string] {
  if (!slot) return [by, key as string];
  const slotKey = slot.key as string | undefined;
  return [
    `${slot.by}/${by}`,
    `${slotKey === undefined ? '' : `${slotKey.length}:${slotKey}`}${sign}${key as string}`,
  ];
}
