// Law 13. What is given back is as if it had never been charged: the same trace with and without it, compared verdict for verdict.
import { describeLaw } from '../support/kit.js';

describeLaw('law 13, return');
