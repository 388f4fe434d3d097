import { expect } from 'chai';
import fc from 'fast-check';
import { kernels, type AnyKernel } from '../../src/algorithms/index.js';
import { packParams, paramsLua } from '../../src/stores/redis/packed-params.js';
import { runs } from '../support/random.js';
import { clients } from '../support/stores.js';

/** The params of a kernel as a script reads them. */
async function read(kernel: AnyKernel, text: string): Promise<number[]> {
  const scope = { kernels: [kernel], policies: [], algorithm: kernel, source: 'single', policy: 0 } as const;
  const reader = paramsLua('reader', '', scope);
  const source = `local kernels = {}\n${reader}
    local params, at = kernels['${kernel}'].read('before' .. ARGV[1], 7)
    local texts = { string.format('%.0f', at) }
    for i, param in ipairs(params) do texts[i + 1] = string.format('%.17g', param) end
    return texts`;
  const [end, ...params] = (await clients.redis.eval(source, 0, text)) as string[];
  expect(Number(end)).to.equal(7 + text.length);
  return params.map(Number);
}

/** Whole numbers of so many bytes, and often the largest ones. Six are enough for 2^52. */
const numbers = (bytes: number): fc.Arbitrary<number> => {
  const most = bytes === 1 ? 101 : bytes === 6 ? 2 ** 52 : 256 ** bytes - 1;
  return fc.oneof(
    fc.integer({ min: 0, max: most }),
    fc.constantFrom(0, most, most - 1, Math.floor(most / 2)),
  );
};

describe('packed params', () => {
  for (const [kernel, { luaParams }] of Object.entries(kernels))
    it(`are printable, and read as they were sent: ${kernel}`, () =>
      fc.assert(
        fc.asyncProperty(fc.tuple(...Object.values(luaParams).map(numbers)), async (sent) => {
          const text = packParams(kernel as AnyKernel, sent);
          expect([...text].every((each) => each >= '\x18' && each <= '~')).to.equal(true);
          expect(await read(kernel as AnyKernel, text)).to.deep.equal(sent);
        }),
        runs('redis', 0, 60),
      ));
});
