// Law 12. Configurations that share a quota's name, in any interleaving: none goes beyond its own bound, none locks a key out, and a
// higher limit never makes anybody wait longer.
import { describeLaw } from '../support/kit.js';

describeLaw('law 12, change');
