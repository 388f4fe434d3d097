// Values that operators type: lengths of bans, and colours.
import { PassThrough } from 'node:stream';
import { expect } from 'chai';
import { lengthOf } from '../src/commands/ban.js';
import { createIo } from '../src/io.js';
import { escape, jsonInHtml } from '../src/replay/report-page.js';

describe('the length of a ban', () => {
  it('stands after the key or behind --for, and needs a unit', () => {
    expect(lengthOf('2h', undefined)).to.equal(7_200_000);
    expect(lengthOf(undefined, '2h')).to.equal(7_200_000);
    expect(() => lengthOf(undefined, undefined)).to.throw(/^duration: missing/);
    expect(() => lengthOf('1h', '2h')).to.throw(/Pass one of them/);
    for (const bare of ['5', '3600', '1.5'])
      expect(() => lengthOf(bare, undefined)).to.throw(new RegExp(`${bare} has no unit. Pass ${bare}s`));
  });
});

describe('colours', () => {
  it('are for terminals, unless NO_COLOR or FORCE_COLOR say otherwise', () => {
    const colours = (env: Record<string, string>, isTTY: boolean) => {
      const stdout = Object.assign(new PassThrough(), { isTTY });
      const streams = { stdin: new PassThrough(), stdout, stderr: new PassThrough(), env, cwd: '.' };
      return createIo(streams, [], false).colors.isColorSupported;
    };
    expect([colours({}, true), colours({}, false)]).to.deep.equal([true, false]);
    expect([colours({ FORCE_COLOR: '1' }, false), colours({ FORCE_COLOR: '0' }, true)]).to.deep.equal([
      true,
      false,
    ]);
    expect([
      colours({ NO_COLOR: '1' }, true),
      colours({ NO_COLOR: '1', FORCE_COLOR: '1' }, true),
    ]).to.deep.equal([false, false]);
  });
});

describe('labels of the report', () => {
  it('show what is invisible', () => {
    const label = 'a\u001b[2J\u202e\u2028b';
    for (const text of [escape(label), jsonInHtml(label)]) {
      expect(/\p{Cc}|\p{Cf}|\p{Zl}/u.test(text)).to.be.false;
      expect(text).to.match(/1b/);
    }
    expect(JSON.parse(jsonInHtml(label))).to.equal(label);
  });
});
