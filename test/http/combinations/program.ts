// A counterexample as a program.
import { optionsOf, text } from '../../oracle/program.js';
import { headersOf } from './client.js';
import type { HttpSite } from './draw.js';

export function programText({ adapter, start, limiters, waves }: HttpSite): string {
  let n = 0;
  return [
    `// ${adapter}; the functions read the fields x-key, x-account, x-org, x-cost(s), x-tier, x-id; the handler x-status, x-takes (ms), x-long`,
    `const clock = new TestClock(${start});`,
    'const store = memoryStore({ clock: clock.read });',
    ...limiters.map((drawn, i) => {
      const { wait, skipFailedRequests, skipSuccessfulRequests, refundAborted, hasIds, isAsync } = drawn;
      const of = { wait, skipFailedRequests, skipSuccessfulRequests, refundAborted };
      const more = Object.entries(of).flatMap(([name, value]) =>
        value === undefined || value === false ? [] : [`${name}: ${value}`],
      );
      const functions = `...${isAsync ? 'asyncFunctions' : 'functions'}${hasIds ? ', requestId' : ''}`;
      return `app.use(rateLimit({ ${[functions, ...more].join(', ')}, store, ...${text(optionsOf(`l${i}`, drawn))} }));`;
    }),
    ...waves.flatMap(({ asks, ms }) => [
      'await Promise.all([',
      ...asks.map((ask) => {
        const { 'x-n': _, ...fields } = headersOf(n, ask);
        const leaves = ask.leaves ? `, { leaves: '${ask.leaves}', how: '${ask.how}' }` : '';
        return `  send(${text(Object.fromEntries(Object.entries(fields).map(([name, value]) => [`'${name}'`, value])))}${leaves}), // ${n++}`;
      }),
      ']);',
      `clock.advance(${ms});`,
    ]),
  ].join('\n');
}
