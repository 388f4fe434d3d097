// Law 2. Without other requests, a denial holds until exactly retryAfter, and the request is admitted then. Impossible costs have no retryAfter.
import { describeLaw } from '../support/kit.js';

describeLaw('law 2, retry');
