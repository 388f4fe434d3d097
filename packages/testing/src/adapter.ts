import { answersOf } from './adapter/answers.js';
import { AdapterSuite, type AdapterUnderTest } from './adapter/lab.js';
import { outcomesOf } from './adapter/outcomes.js';
import { requestsOf } from './adapter/requests.js';
import { stackedLimiters } from './adapter/stacked.js';
import type { Check } from './check.js';

const SUITES = {
  'adapter, answers': answersOf,
  'adapter, requests': requestsOf,
  'adapter, several limiters on one route': stackedLimiters,
  'adapter, outcomes': outcomesOf,
};

/** The behaviour of every adapter, seen by a client over HTTP. Each check starts its own app on 127.0.0.1. */
export function adapterChecks<Req, Res>(adapter: AdapterUnderTest<Req, Res>): Check[] {
  return Object.entries(SUITES).flatMap(([name, fill]) => {
    const suite = new AdapterSuite(name, adapter);
    fill(suite);
    return suite.checks;
  });
}
