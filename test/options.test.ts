// Option tables agree with the public types, with the docstrings, and with docs/options.md.
import { expect } from 'chai';
import { readFileSync } from 'node:fs';
import { options, optionsPage } from '../scripts/docs/options.js';
import {
  boolean,
  choice,
  duration,
  integer,
  readOptions,
  switched,
  type OptionTable,
} from '../src/common/options.js';

interface Example {
  size?: number;
  mode?: 'fast' | 'safe';
}

describe('option tables', () => {
  it('must have a row of the right type for each option of the public type', () => {
    const table = { size: integer(1, 9, 5), mode: choice(['fast', 'safe'], 'fast') };
    const values: { size: number; mode: string } = readOptions(table satisfies OptionTable<Example>, {});
    expect(values).to.deep.equal({ size: 5, mode: 'fast' });
    // @ts-expect-error -- no row for `mode`
    void ({ size: integer(1, 9) } satisfies OptionTable<Example>);
    // @ts-expect-error -- a boolean is not a number
    void ({ ...table, size: boolean(false) } satisfies OptionTable<Example>);
    // @ts-expect-error -- the type has another word
    void ({ ...table, mode: choice(['fast'], 'fast') } satisfies OptionTable<Example>);
    // @ts-expect-error -- no such option
    void ({ ...table, sise: integer(1, 9) } satisfies OptionTable<Example>);
  });

  it('an option that can be switched on has its defaults, and refuses unknown names with the nearest one', () => {
    const row = switched({ hold: duration('100ms', { most: 1000 }) });
    expect([undefined, false, true].map((given) => row.read('slices', given))).to.deep.equal([
      undefined,
      undefined,
      { hold: 100 },
    ]);
    expect(() => row.read('slices', { holds: 1 })).to.throw(/'holds' is unknown.*`hold`/);
    expect(() => row.read('slices', { hold: '2s' })).to.throw(/^slices\.hold: "2s".*\b1000\b/);
    expect(() => row.read('slices', 'yes')).to.throw(/^slices: "yes".*true.*hold/);
  });

  it('every option has a docstring', () => {
    const silent = options().filter(({ sentence }) => !/\.$/.test(sentence));
    expect(silent.map(({ section, name }) => `${section}: ${name}`)).to.deep.equal([]);
  });

  it('docstrings name the default of the row', () => {
    const text = (value: unknown): string => JSON.stringify(value).replaceAll('"', "'").replaceAll(',', ', ');
    const differing = options().filter(
      ({ otherwise, documented }) =>
        otherwise !== undefined &&
        documented !== undefined &&
        !documented.replaceAll('_', '').startsWith(text(otherwise)),
    );
    expect(differing).to.deep.equal([]);
  });

  it('docs/options.md is fresh', async () => {
    const page = readFileSync(new URL('../docs/options.md', import.meta.url), 'utf8');
    expect(page === (await optionsPage()), 'docs/options.md is stale: npm run docs:options').to.equal(true);
  });
});
