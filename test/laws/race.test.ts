// Law 7. N simultaneous requests against limit L admit exactly min(N, L), each with its own `remaining`.
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { expect } from 'chai';
import type { Algorithm, CreateLimiterOptions } from 'headgate';
import { describeLaw } from '../support/kit.js';
import { startChild } from '../support/processes.js';
import { serverKinds, servers } from '../support/shared-servers.js';
import { windowed as algorithms } from '../support/policies.js';
import { freshPrefix } from '../support/stores.js';

/** The task of a racing process. */
export interface Heat {
  readonly options: CreateLimiterOptions;
  readonly key: string;
  readonly requests: number;
}

/** A policy with a window so long that no unit comes back meanwhile. */
const policyFor = (algorithm: Algorithm, limit: number) =>
  (algorithm === 'concurrency'
    ? { algorithm, limit, lease: '30d' }
    : { algorithm, limit, window: '30d' }) as CreateLimiterOptions;

describeLaw('law 7, race');

for (const name of serverKinds) {
  describe(`law 7, race, between processes, on ${name}`, function () {
    const racers: ChildProcess[] = [];

    before(async () => {
      const args = [String(servers[name].port), freshPrefix()];
      const started = [1, 2, 3].map(() => startChild('race-child.ts', ...args));
      racers.push(...(await Promise.all(started)));
    });

    after(async () => {
      await Promise.all(
        racers.map(async (racer) => {
          racer.disconnect();
          await once(racer, 'exit');
        }),
      );
    });

    for (const algorithm of algorithms) {
      it(algorithm, async () => {
        const heat: Heat = {
          options: { name: algorithm, ...policyFor(algorithm, 100) },
          key: 'key',
          requests: 60,
        };
        const answers = racers.map((racer) => once(racer, 'message'));
        for (const racer of racers) racer.send(heat);
        const admitted = (await Promise.all(answers)).flatMap(([remaining]) => remaining as number[]);
        expect(admitted.sort((a, b) => b - a)).to.deep.equal(Array.from({ length: 100 }, (_, i) => 99 - i));
      });
    }
  });
}
