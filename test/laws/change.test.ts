// Law 12. Configurations that share a quota's name, in any interleaving: each keeps its own bound, no key is locked out, and a higher
// limit never makes a client wait longer.
import { describeLaw } from '../support/kit.js';

describeLaw('law 12, change');
