import { expect } from 'chai';
import fc from 'fast-check';
import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import type { Script } from '../../src/stores/redis/scripts.js';
import { sizeOfLua } from '../support/lua-locals.js';
import { runs } from '../support/random.js';
import {
  checkSizes,
  FEATURES,
  KINDS,
  loadScripts,
  otherScripts,
  scriptsOf,
  type Kind,
} from '../support/script-sets.js';
import { clients, freshPrefix } from '../support/stores.js';

const client = clients.redis;

/** A script with a function of so many locals in some form. */
const forms: Record<string, (count: number) => string> = {
  'the main function': (count) => locals(count),
  'a function with parameters': (count) => `local function f(a, b)\n${locals(count - 2)}\nend\nreturn f`,
  'a vararg function': (count) => `local function f(a, ...)\n${locals(count - 2)}\nend\nreturn f`,
  'a numeric loop': (count) => `for i = 1, 2 do\n${locals(count - 4)}\nend`,
  'a loop over pairs': (count) => `for k, v in pairs({}) do\n${locals(count - 5)}\nend`,
  'blocks one after the other': (count) => `do\n${locals(90)}\nend\ndo\n${locals(count)}\nend`,
  'a local function': (count) =>
    `local function f() end\nrepeat local x = 1 until x\n${locals(count - 1)}\nf()`,
};

const locals = (count: number): string =>
  Array.from({ length: count }, (_, i) => `local v${i} = ${i}`).join('\n');

const load = (source: string) => client.script('LOAD', source);

describe('sizes of scripts', () => {
  afterEach(() => client.script('FLUSH'));

  for (const [name, make] of Object.entries(forms))
    it(`are counted as the server's compiler counts locals: ${name}`, async () => {
      expect([200, 201].map((count) => sizeOfLua(make(count)).locals)).to.deep.equal([200, 201]);
      await load(make(200));
      expect(await load(make(201)).catch(String)).to.contain('200 local variables');
    });

  it("are counted as the server's compiler counts upvalues", async () => {
    const make = (count: number) => {
      const sum = Array.from({ length: count }, (_, i) => `v${i}`).join(' + ');
      return `${locals(count)}\nlocal function f() return function() return ${sum} end end\nreturn f`;
    };
    expect([60, 61].map((count) => sizeOfLua(make(count)).upvalues)).to.deep.equal([60, 61]);
    await load(make(60));
    expect(await load(make(61)).catch(String)).to.contain('60 upvalues');
  });

  it('are far from the bounds of Lua, and scripts of any policies and features are compiled', async () => {
    const kinds = fc.array(fc.constantFrom(...(Object.keys(KINDS) as Kind[])), { maxLength: 6 });
    const features = fc.constantFrom(...FEATURES);
    await fc.assert(
      fc.asyncProperty(kinds, features, async (kinds, features) => {
        const scripts = scriptsOf(kinds, features);
        checkSizes(scripts);
        expect(await loadScripts(client, scripts)).to.deep.equal([]);
      }),
      runs('redis', 0, 40),
    );
  });

  it('allow every kernel and feature at once', async () => {
    const all = FEATURES.at(-1)!;
    const scripts = [
      ...scriptsOf(Object.keys(KINDS) as Kind[], all),
      ...scriptsOf(['window', 'shared window', 'fixed', 'bucket', 'calendar'], all),
      ...otherScripts(),
    ];
    console.log(`    the largest: ${JSON.stringify(checkSizes(scripts))}`);
    expect(await loadScripts(client, scripts)).to.deep.equal([]);
  });

  it('are refused long before the server refuses them', () => {
    const [{ source }] = scriptsOf(['window'], FEATURES[0]!) as [Script];
    expect(() => checkSizes([{ source: `${locals(100)}\n${source}`, sha: '' }])).to.throw(
      /locals, of at most/,
    );
    expect(() => checkSizes([{ source: 'return headgate_set()', sha: '' }])).to.throw('headgate_set');
  });

  it('hold for a gateway of language models with shares, slots, thresholds, overrides and a ban', async () => {
    const limiter = createLimiter({
      name: 'gateway',
      store: redisStore(client, { prefix: freshPrefix() }),
      policies: [
        'requests=fixed-window 10/1m by tenant thresholds 80% 100%',
        'tokens=100000/1m by provider share tenant',
        'calls=concurrency 5/30s by provider share tenant',
      ],
      onThreshold: () => {},
      overrides: true,
      ban: { after: 50, by: 'tenant' },
      // The server compiles 80 kB at the first decision.
      timeout: '20s',
    });
    const key = { provider: 'openai', tenant: 'acme' };
    const decisions = [];
    for (let i = 0; i < 11; i++) {
      const decision = await limiter.consume(key);
      decisions.push(decision);
      await decision.release?.();
    }
    expect(decisions.map(({ degraded }) => degraded)).to.not.include(true);
    expect(decisions.filter(({ allowed }) => allowed)).to.have.length(10);
    await limiter.close();
  });
});
