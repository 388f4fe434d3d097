// Law 2. Denied until exactly retryAfter, admitted at it, if no other request spends. Impossible costs report it.
import { describeLaw } from '../support/kit.js';

describeLaw('law 2, retry');
