// Places on a shared server for tests of several limiters.
import type { Limiter } from 'headgate';
import type { ServerKind } from '../../../test/support/servers.js';
import { servers } from '../../../test/support/shared-servers.js';
import { freshPrefix } from '../../../test/support/stores.js';

/** The keys of one test on a server, the options of command lines that find them, and limiters that are closed after the test. */
interface Place {
  readonly prefix: string;
  readonly where: string[];
  readonly limiters: Limiter[];
}

/** Gives each test a place of its own. */
export function forEachTest(kind: ServerKind, use: (place: Place) => void): void {
  let limiters: Limiter[];
  beforeEach(() => {
    const prefix = freshPrefix();
    limiters = [];
    use({ prefix, where: ['--redis', servers[kind].url, '--prefix', prefix], limiters });
  });
  afterEach(() => Promise.all(limiters.map((limiter) => limiter.close())));
}
