// Law 2. Denied until exactly retryAfter, admitted at it, if nobody else spends. Impossible costs say so.
import { describeLaw } from '../support/kit.js';

describeLaw('law 2, retry');
