// A process of a drawn site: it makes requests and changes at random, or reads crossings of thresholds, and records each call and answer.
import { setTimeout as sleep } from 'node:timers/promises';
import { createLimiter, type CreateLimiterOptions, type Decision, type Limiter, type Usage } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { sequence } from '../oracle/processes/random.js';
import { answerOf, Recorder, type Asked, type Keys } from '../oracle/processes/record.js';
import { openerOf } from '../oracle/processes/store.js';
import { GROUP, realOptions, REDELIVER_MS, type StoreKind, type Task } from '../oracle/processes/task.js';
import { Traffic } from '../oracle/processes/traffic.js';

const WORKERS = 10;

const openStore = await openerOf(process.argv[2] as StoreKind);

/** Whether this process kills itself between the next charge of an id and its answer. */
let isDying = false;

async function work({ site, place, log, seed, ms }: Task): Promise<void> {
  const { store, close } = await openStore(place);
  const recorder = new Recorder(log);
  const limiters = site.limiters.map((drawn, at) =>
    createLimiter({
      ...realOptions(drawn, at),
      store,
      onThreshold: ({ limiter, policy, key, threshold, limit }) =>
        recorder.write({ event: { limiter, policy, key, threshold, limit }, at: Date.now() }),
    } as CreateLimiterOptions),
  );
  const decisions = new Map<number, Decision>();
  const call = async (asked: Asked): Promise<void> => {
    const n = recorder.begin(asked);
    try {
      const answer = outcomeOf(limiters[asked.limiter]!, asked, decisions.get(asked.of!));
      if (isDying && asked.id !== undefined)
        setTimeout(() => process.kill(process.pid, 'SIGKILL'), random() * 4);
      const result = await answer;
      if (asked.call === 'consume') {
        decisions.set(n, result as Decision);
        if ((result as Decision).allowed) traffic.admitted(n, asked);
      }
      const isDecision = asked.call === 'consume' || asked.call === 'peek';
      recorder.end(n, isDecision ? { answer: answerOf(result as Decision) } : outcomeTo(result));
    } catch (error) {
      const { code, message } = error as Error & { code?: string };
      recorder.end(n, { error: `${code ?? ''} ${message}` });
    }
  };
  const random = sequence(seed);
  const traffic = new Traffic(site, random);
  const end = Date.now() + ms;
  await Promise.all(
    Array.from({ length: WORKERS }, async () => {
      while (Date.now() < end) {
        const asked = traffic.next();
        if (asked) await call(asked);
        await sleep(random() * 6);
      }
    }),
  );
  await Promise.all(limiters.map((limiter) => limiter.close()));
  await close();
}

function outcomeOf(limiter: Limiter, asked: Asked, made: Decision | undefined): unknown {
  const { keys, call, tier, cost, weight, id, ms, policy, limit, units } = asked;
  const place = keys as Keys;
  const options = {
    ...(tier === undefined ? {} : { tier }),
    ...(cost === undefined ? {} : { cost }),
    ...(weight === undefined ? {} : { weight }),
  };
  const ofTier = tier === undefined ? {} : { tier };
  const change = { [policy!]: { limit } } as never;
  const length = ms === undefined ? {} : { for: ms };
  switch (call) {
    case 'consume':
      return limiter.consume(place, id === undefined ? options : { ...options, id });
    case 'peek':
      return limiter.peek(place, options);
    case 'settle':
      return made!.settle(units!);
    case 'refund':
    case 'cancel':
    case 'release':
    case 'renew':
      return made![call]();
    case 'giveBack':
      return limiter.refund(place, units, ofTier);
    case 'reset':
      return limiter.reset(place, ofTier);
    case 'ban':
      return limiter.ban(place, ms!);
    case 'unban':
      return limiter.unban(place);
    case 'override':
      return keys ? limiter.override(place, change, length) : limiter.overrideAll(change, length);
    case 'remove':
      return keys ? limiter.removeOverride(place) : limiter.removeOverride();
    case 'usage':
      return limiter.usage(place, ofTier);
  }
}

/** The recorded part of another result. */
function outcomeTo(result: unknown): object {
  const bannedUntil = (result as Usage | undefined)?.bannedUntil;
  return bannedUntil === undefined ? { done: result === true } : { bannedUntil };
}

/** Reads and acknowledges until killed, and leaves some crossings without an acknowledgement. */
async function read({ place, log, seed, ms }: Task): Promise<void> {
  const { store, close } = await openStore(place);
  const recorder = new Recorder(log);
  const random = sequence(seed);
  const reader = createAdmin(store).thresholds({ group: GROUP, redeliverAfter: REDELIVER_MS });
  const end = Date.now() + ms;
  while (Date.now() < end) {
    const at = Date.now();
    const crossings = await reader.read({ count: 1 + Math.floor(random() * 8) });
    for (const { id } of crossings) recorder.write({ read: id, at });
    for (const crossing of crossings) {
      if (random() < 0.1) continue;
      await sleep(random() * 10);
      await reader.ack(crossing);
      recorder.write({ acked: crossing.id, at: Date.now() });
    }
    await sleep(random() * 20);
  }
  await close();
}

process.on('message', (task: Task | 'die') => {
  if (task === 'die') {
    isDying = true;
    return;
  }
  (task.role === 'worker' ? work(task) : read(task)).then(
    () => process.send!('done'),
    (error: Error) => process.send!(`failed: ${error.stack ?? error}`),
  );
});
process.on('disconnect', () => process.exit());
process.send!('ready');
