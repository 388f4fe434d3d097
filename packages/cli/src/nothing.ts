import type { Admin } from 'headgate/admin';
import { complain, type Io } from './io.js';

const MESSAGE =
  'Nothing of Headgate is there: no limiter is published, and no key was found. Is --redis right, with the number of the database, and --prefix? ' +
  'Has a process with a limiter started? It publishes its limiters a second later, then every 30 seconds.';

/** The items of an answer. An empty answer warns as {@link warnIfNothing}. */
export async function* orWarning<T>(items: AsyncIterable<T>, admin: Admin, io: Io): AsyncGenerator<T> {
  let isEmpty = true;
  for await (const item of items) {
    isEmpty = false;
    yield item;
  }
  if (isEmpty) await warnIfNothing(admin, io);
}

/** Warns after an empty answer if the store has neither a limiter nor a key of Headgate, so that a wrong database is not taken for calm. */
export async function warnIfNothing(admin: Admin, io: Io): Promise<void> {
  if ((await admin.limiters()).limiters.length > 0) return;
  const search = await admin.keys({ kinds: ['banned', 'state'] });
  for await (const _ of search) return;
  if (search.checked === 0)
    complain(io, { warning: true, code: 'NOTHING_FOUND', message: MESSAGE }, `warning: ${MESSAGE}`);
}
