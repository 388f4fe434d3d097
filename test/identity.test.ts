// Law 4: memory, a store that keeps bytes, Redis and Valkey return the same decision, verdict for verdict, on the same trace.
import { identityChecks } from 'headgate-testing';
import { describeChecks, runsOf, subjects } from './support/kit.js';
import { regressions } from './vectors/regressions.js';

for (const [kind, subject] of Object.entries(subjects)) {
  if (kind === 'memory') continue;
  const options = { ...subject, traces: regressions, runs: runsOf(kind, 0, 40) };
  describeChecks(`memory and ${kind}`, identityChecks(options));
}
