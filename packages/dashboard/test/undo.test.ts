// The changes for which the page offers an undo.
import { expect } from 'chai';
import { canUndo, grouped, restoredText } from '../src/page/undo.js';

const NOW = 1_000_000;
const HOUR = 3_600_000;
let ids = 0;
const row = (action: string, fields: object = {}) => ({
  ...{ id: String(++ids), action, name: 'api', key: 'ada', keys: 1, at: NOW - 1000, forMs: 0 },
  ...fields,
});

describe('the undo of a change on the page', () => {
  const offered = (...rows: ReturnType<typeof row>[]) => rows.map((each) => canUndo(each, rows, NOW));

  it('is not offered for a change that is over, or that had no effect', () => {
    expect(offered(row('ban', { forMs: HOUR }))).to.deep.equal([true]);
    expect(offered(row('ban', { forMs: 500 }))).to.deep.equal([false]);
    expect(offered(row('override', { forMs: 500 }))).to.deep.equal([false]);
    expect(offered(row('override'))).to.deep.equal([true]);
    expect(offered(row('unban', { before: HOUR }))).to.deep.equal([true]);
    expect(offered(row('unban', { before: 500 }))).to.deep.equal([false]);
    expect(offered(row('unban'))).to.deep.equal([false]);
    expect(offered(row('reset'))).to.deep.equal([false]);
    expect(offered(row('import', { keys: 1001 }))).to.deep.equal([false]);
  });

  it('is not offered for a change that a later one of the key replaced, or that was undone', () => {
    const ban = row('ban', { forMs: HOUR });
    expect(offered(row('ban', { forMs: HOUR }), ban)).to.deep.equal([true, false]);
    expect(offered(row('override'), ban)).to.deep.equal([true, true]);
    expect(offered(row('ban', { forMs: HOUR, key: 'bob' }), ban)).to.deep.equal([true, true]);
    const undo = row('unban', { undoes: ban.id, before: HOUR });
    expect(offered(undo, { ...ban, undoneBy: undo.id } as typeof ban)).to.deep.equal([true, false]);
    const redo = row('ban', { undoes: undo.id, forMs: HOUR });
    expect(offered(redo, { ...undo, undoneBy: redo.id } as typeof ban, ban)).to.deep.equal([
      true,
      false,
      true,
    ]);
  });
});

describe('the dialog of an undo', () => {
  const text = (action: string, fields: object = {}) => restoredText(row(action, fields), NOW);

  it('names the state that the undo restores', () => {
    const raised = { account: '120/1m' };
    expect(text('override', { after: raised })).to.equal('Limits: account 120/1m → the configured limits');
    expect(text('override', { before: { account: '60/1m' }, after: raised })).to.equal(
      'Limits: account 120/1m → account 60/1m, until the end that it had',
    );
    expect(text('remove', { before: raised })).to.equal(
      'Limits: the configured limits → account 120/1m, until the end that it had',
    );
    expect(text('ban', { forMs: HOUR })).to.equal('Ends the ban, 59 min left');
    expect(text('ban', { forMs: HOUR, before: HOUR / 2 })).to.equal('Ban, 59 min left → 29 min left');
    expect(text('unban', { before: HOUR })).to.equal('Bans again for 59 min');
    expect(text('import', { keys: 2 })).to.equal(
      'Ends the imported bans of 2 keys, or restores the bans that they had before',
    );
  });
});

describe('the overrides of one import, in the log of the page', () => {
  const note = { by: 'ada', reason: 'launch' };
  interface Group {
    readonly members?: readonly { readonly key: string }[];
    readonly imported?: readonly object[];
    readonly undoneBy?: string;
  }
  const groupsIn = (rows: ReturnType<typeof row>[]) => grouped(rows) as Group[];
  const keysOf = (rows: ReturnType<typeof row>[]) =>
    groupsIn(rows).map(({ members = [] }) => members.map(({ key }) => key));

  it('are one row', () => {
    const rows = ['a', 'b', 'c', 'd'].map((key) => row('override', { ...note, key }));
    const group = groupsIn(rows)[0]!;
    expect(group).to.include({ keys: 4, by: 'ada', reason: 'launch' });
    expect(group.imported).to.have.length(3);
    expect(group.undoneBy).to.equal(undefined);
    expect(keysOf(rows)).to.deep.equal([['a', 'b', 'c', 'd']]);
  });

  it('are apart from changes of others, of all keys, of another time, of another kind, and from their undo', () => {
    const first = row('override', { ...note, key: 'a' });
    for (const fields of [
      { by: 'grace' },
      { reason: 'other' },
      { name: 'web' },
      { key: undefined },
      { at: NOW - 5000 },
      { undoes: '1' },
    ])
      expect(keysOf([first, row('override', { ...note, key: 'b', ...fields })])).to.deep.equal([[], []]);
    const bans = ['a', 'b'].map((key) => row('ban', { ...note, key }));
    expect(keysOf(bans)).to.deep.equal([[], []]);
  });

  it('are undone if all are', () => {
    const rows = ['a', 'b'].map((key) => row('override', { ...note, key, undoneBy: `${key} undone` }));
    expect(groupsIn(rows)[0]!.undoneBy).to.equal('a undone');
  });
});
