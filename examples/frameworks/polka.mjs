// polka.
import polka from 'polka';
import { rateLimit } from 'headgate/express';

export const app = polka().use(rateLimit('100/1m'));
