// Law 3. A denied request charges nothing, in any policy: either all policies charge, or none does.
import { describeLaw } from '../support/kit.js';

describeLaw('law 3, charge');
