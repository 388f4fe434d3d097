// Law 9. A page of the memory store finds each key with its own state, whichever keys came, left or moved before.
import { expect } from 'chai';
import fc from 'fast-check';
import { algorithms, SlotColumn, type Kernel } from '../../src/algorithms/index.js';
import { compileBan } from '../../src/features/bans/contract/ban-options.js';
import { fingerprint, takeFingerprint } from '../../src/stores/fingerprint.js';
import { MemoryPage } from '../../src/stores/memory/page.js';
import { runs } from '../support/random.js';

const NOW = 1_800_000_000_000;
const LIMIT = 1000;
// The states of shares and of slots' shares change outside of their columns: see test/features/shares/law.test.ts.
const kinds = (Object.keys(algorithms) as Kernel[]).filter((kind) => !kind.endsWith('shares'));
const params = kinds.map(
  (kind) =>
    algorithms[kind].compile(kind, { limit: LIMIT, window: 60_000, lease: 60_000, period: 'year' }).params,
);
const ban = compileBan({})!;

const BANS_FROM = 4;

/** The units charged to a key by each algorithm. A banned key's ban lasts the same number, in ms. */
type Model = Map<string, number>;

function open(): MemoryPage {
  const page = new MemoryPage(0, 0, 0, 0);
  for (const [i, kind] of kinds.entries())
    page.columns[i] = algorithms[kind].createColumn(page.rows, params[i]!);
  return page;
}

function rowOf(page: MemoryPage, key: string): number {
  takeFingerprint(key);
  return page.find(0);
}

function charge(page: MemoryPage, row: number, units: number): void {
  for (const [i, column] of page.columns.entries()) {
    column!.look(row, params[i]!, units, NOW);
    if (column instanceof SlotColumn) column.lease = `lease ${units}`;
    column!.commit(row, params[i]!, units, NOW);
  }
  // The ban lasts `units` ms. Keys with few units have no ban, so that such a key can take over a banned key's row without the ban.
  if (units > BANS_FROM) page.bans.set(row, ban, NOW, units);
  page.deny(row, units);
}

/** The units that each algorithm has charged to a row, and the length of its ban, ms. */
function charged(page: MemoryPage, row: number): number[] {
  const units = page.columns.map((column, i) => {
    column!.look(row, params[i]!, 0, NOW);
    return LIMIT - column!.remaining;
  });
  return [...units, page.bans.look(row, ban, NOW, false)];
}

const all = (units: number): number[] => [...kinds.map(() => units), units > BANS_FROM ? units : 0];

function check(page: MemoryPage, model: Model): void {
  for (const [key, units] of model) {
    const row = rowOf(page, key);
    expect(charged(page, row), key).to.deep.equal(all(units));
    expect(page.deniedUntil(row)).to.equal(units);
  }
  expect(page.size).to.equal(model.size);
  let keys = 0;
  for (let row = 1; row <= page.rows; row++) {
    if (page.isVacant(row)) expect(charged(page, row), 'vacant').to.deep.equal(all(0));
    else keys++;
  }
  expect(keys).to.equal(model.size);
}

const steps = fc.array(
  fc.record({
    action: fc.constantFrom('add', 'add', 'add', 'add', 'remove', 'remove', 'remake', 'split'),
    // Few keys, so that a page often has long runs.
    key: fc.oneof(fc.nat(20), fc.nat(200)).map((n) => `key ${n}`),
    units: fc.integer({ min: 1, max: 9 }),
  }),
  { minLength: 50, maxLength: 300 },
);

describe('law 9: a page of the memory store', () => {
  it('finds each key with its state, and no key that has left', () => {
    fc.assert(
      fc.property(steps, (list) => {
        let page = open();
        let model: Model = new Map();
        const belongs = (key: string): boolean => {
          takeFingerprint(key);
          return (fingerprint[0]! & (2 ** page.depth - 1)) === page.ending;
        };
        for (const { action, key, units } of list) {
          const row = rowOf(page, key);
          expect(row !== 0, key).to.equal(model.has(key));
          if (action === 'add' && row === 0 && belongs(key)) {
            if (page.isFull) page = page.part(page.id, page.depth, page.ending);
            takeFingerprint(key);
            const added = page.add();
            expect(page.deniedUntil(added)).to.equal(0);
            charge(page, added, units);
            model.set(key, units);
          } else if (action === 'remove' && row !== 0) {
            page.remove(row);
            model.delete(key);
          } else if (action === 'remake') {
            page = page.part(page.id, page.depth, page.ending);
          } else if (action === 'split' && page.depth < 3) {
            const { id, depth, ending } = page;
            const parts = [page.part(id, depth + 1, ending), page.part(id, depth + 1, ending + 2 ** depth)];
            const models = parts.map(
              (part) => new Map([...model].filter(([name]) => rowOf(part, name) !== 0)),
            );
            for (const [i, part] of parts.entries()) check(part, models[i]!);
            expect(models[0]!.size + models[1]!.size).to.equal(model.size);
            const larger = models[0]!.size >= models[1]!.size ? 0 : 1;
            page = parts[larger]!;
            model = models[larger]!;
          }
          check(page, model);
        }
      }),
      runs('memory', 60, 0),
    );
  });

  for (const [i, kind] of kinds.entries()) {
    it(`${kind}: after the clock went back, a look writes nothing, and refresh repairs the state`, () => {
      const column = algorithms[kind].createColumn(8, params[i]!);
      column.look(1, params[i]!, 7, NOW);
      column.commit(1, params[i]!, 7, NOW);
      const [saved, until] = [column.save(1), column.until(1)];
      const earlier = NOW - 400 * 86_400_000;
      column.look(1, params[i]!, 1, earlier);
      expect(column.save(1)).to.deep.equal(saved);
      expect(column.isStale).to.equal(true);
      column.refresh(1, params[i]!, earlier);
      expect(column.until(1)).to.be.above(earlier).and.below(until);
    });

    it(`${kind}: the state of a key that moves is complete`, () => {
      const column = algorithms[kind].createColumn(8, params[i]!);
      // Charges every segment, and adds more than one lease and entry.
      for (let second = 0; second < 90; second++) {
        const now = NOW + second * 1000;
        column.look(3, params[i]!, 7, now);
        if (column instanceof SlotColumn) column.lease = `lease ${second}`;
        column.commit(3, params[i]!, 7, now);
      }
      const moved = column.sibling(16);
      moved.take(column, 3, 5);
      const verdictOf = (of: typeof column, row: number, now: number) => {
        of.look(row, params[i]!, 900, now);
        return { wait: of.wait, remaining: of.remaining, reset: of.reset, until: of.until(row) };
      };
      for (let now = NOW + 90_000; now < NOW + 160_000; now += 500)
        expect(verdictOf(moved, 5, now)).to.deep.equal(verdictOf(column, 3, now));
    });
  }
});
