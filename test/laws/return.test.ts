// Law 13. Units that are given back are as if they had never been charged: the same trace with and without them, compared verdict for verdict.
import { describeLaw } from '../support/kit.js';

describeLaw('law 13, return');
