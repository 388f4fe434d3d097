// Law 4. Memory, Redis and Valkey give the same decision, verdict for verdict, on the same trace.
import { identityChecks } from 'headgate/testing';
import { describeChecks, runsOf, subjects } from './support/kit.js';
import { serverKinds } from './support/shared-servers.js';
import { regressions } from './vectors/regressions.js';

for (const kind of serverKinds) {
  const options = { ...subjects[kind]!, traces: regressions, runs: runsOf(kind, 0, 40) };
  describeChecks(`memory and ${kind}`, identityChecks(options));
}
