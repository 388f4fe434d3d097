// The public suites over Redis over HTTP: the contract, all laws, identity with memory.
import { storeChecks } from 'headgate-testing';
import { describeChecks } from '../support/kit.js';
import type { RestServer } from '../support/rest-server.js';
import { restSubject, useRest } from '../support/rest-subject.js';
import { regressions } from '../vectors/regressions.js';

describe('Redis over HTTP', () => {
  let rest: RestServer;
  useRest((started) => (rest = started));
  describeChecks('over HTTP', storeChecks({ ...restSubject(() => rest, 4), traces: regressions }));
});
