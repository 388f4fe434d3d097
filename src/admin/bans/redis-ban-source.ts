import type { ChangeNote } from '../../contract/change-note.js';
import { strikesOf } from '../../features/bans/saved-ban.js';
import { BAN_TAG, escapeName } from '../../stores/keys.js';
import { bookArgs, bookKeys, logArgs } from '../../stores/redis/operators/ban-book.js';
import { assemble } from '../../stores/redis/scripts.js';
import { batches } from '../batches.js';
import { entryAfter, LENIENT, type BanSource } from './ban-source.js';
import type { FoundKey, Owner } from '../owners.js';
import { ignoreUnreadable, reasonOf, type Calls } from '../redis/calls.js';
import type { RedisLog } from '../redis/log.js';

/** The number of bans that are read at a time. */
const BATCH_SIZE = 500;

export function redisBans(calls: Calls, log: RedisLog): BanSource {
  const { prefix, timeout } = calls;
  const set = { name: '', policies: [], ban: LENIENT, timeout };
  const [index, notes] = bookKeys(prefix);
  const look = (owners: readonly Owner[]) => calls.look(set, owners.map(calls.headOf));
  const keyOf = (owner: Pick<Owner, 'text'>): string => `${calls.headOf(owner)}}${BAN_TAG}`;
  return {
    async *recorded(name) {
      const isWanted = ({ owner }: FoundKey): boolean =>
        name === undefined || owner.scope === escapeName(name);
      const range = [String(await calls.now()), '+inf', 'LIMIT'];
      for (let at = 0; ; at += BATCH_SIZE) {
        const page = calls.call('ZRANGEBYSCORE', index, ...range, String(at), String(BATCH_SIZE));
        // An index that cannot be read names no bans.
        const owners = (await page.catch(ignoreUnreadable)) as string[] | undefined;
        if (!owners?.length) return;
        yield owners.flatMap((text) => calls.found(keyOf({ text }))).filter(isWanted);
      }
    },
    async lefts(owners) {
      const replies = await look(owners);
      return replies.map((reply) => (reply instanceof Error ? reply : reply.ban));
    },
    async stateOf(owner) {
      const [value, [reply]] = await Promise.all([calls.call('GET', keyOf(owner)), look([owner])]);
      if (reply instanceof Error) throw reply;
      const { now, ban } = reply!;
      return { bannedForMs: ban, ...strikesOf(value as string | null, now) };
    },
    async notesOf(owners) {
      const answer = calls.call('HMGET', notes, ...owners.map(({ text }) => text));
      // Bans can be shown without their notes.
      const texts = (await answer.catch(ignoreUnreadable)) as (string | null)[] | undefined;
      return owners.map((_, i) => parseNote(texts?.[i] ?? null));
    },
    async set(changes, logged) {
      const script = assemble('set-ban', [], ['bans']);
      const params = Object.values(LENIENT!).map(String);
      let unnoted: string | undefined;
      const write = (args: readonly string[]): Promise<unknown> =>
        log.write(args).catch((error: unknown) => (unnoted = reasonOf(error)));
      const started = performance.now();
      const all = batches(changes);
      for (const some of all) {
        const isSet = some.map(({ owner, duration }) =>
          calls.run(script, [keyOf(owner)], ['', String(duration), ...params]),
        );
        try {
          await Promise.all(isSet);
        } catch (error) {
          // The log has a change of which only a part was made.
          if (logged) await write(logArgs(entryAfter(logged, started)));
          throw error;
        }
        const args = some.flatMap(({ owner, duration, note }, i) => {
          const entry = logged && some === all.at(-1) && i === 0 ? entryAfter(logged, started) : undefined;
          return bookArgs(owner.text, Math.max(0, duration), note, entry);
        });
        await write(args);
      }
      return unnoted;
    },
  };
}

function parseNote(text: string | null): ChangeNote | null {
  try {
    return text === null ? null : (JSON.parse(text) as ChangeNote);
  } catch {
    return null;
  }
}
