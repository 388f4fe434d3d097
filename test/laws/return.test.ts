// Law 13. Returned units count as never charged: the same trace with and without the returned units, compared verdict by verdict.
import { describeLaw } from '../support/kit.js';

describeLaw('law 13, return');
