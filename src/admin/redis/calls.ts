import { HeadgateError, withoutPage } from '../../common/errors.js';
import { withoutSecrets } from '../../common/shown.js';
import { within } from '../../common/within.js';
import { printable } from '../../common/printable.js';
import { PROBE_SCOPE } from '../../contract/health.js';
import type { Reply } from '../../contract/reply.js';
import { ONE_UNIT } from '../../contract/costs.js';
import { lookOf, type Clock, type PolicySet } from '../../contract/store.js';
import { looksOf, ownArgs, tagsOf } from '../../features/features.js';
import { pushRequestArgs } from '../../features/layout.js';
import { parseStateKey } from '../../stores/keys.js';
import { argsOf, partsOfLooks, timeToldBy } from '../../stores/redis/calls/plans.js';
import { ScriptCalls } from '../../stores/redis/calls/script-calls.js';
import { costArg, decode } from '../../stores/redis/calls/wire.js';
import type { Commands } from '../../stores/redis/clients/commands.js';
import { assemble, type Script } from '../../stores/redis/scripts.js';
import { batches } from '../batches.js';
import type { KeptKey, FoundKey, Owner } from '../owners.js';

/** The number of keys per script call, which then takes well under a millisecond. */
const KEYS_PER_CALL = 50;

const MAX_KEY_LENGTH = 100;

/** The error for a key of Headgate that another program has written. */
export class OtherKeyError extends HeadgateError {}

/** Ignores that the user may not read a key, or that another program has written its value. */
export function ignoreUnreadable(error: unknown): undefined {
  if (!(error instanceof OtherKeyError || /NOPERM/.test(String(error)))) throw error;
}

export class Calls {
  readonly commands: Commands;
  readonly prefix: string;
  readonly timeout: number;
  readonly #calls: ScriptCalls;

  readonly clock: Clock | undefined;

  constructor(commands: Commands, prefix: string, timeout: number, clock?: Clock) {
    this.clock = clock;
    this.commands = commands;
    this.prefix = prefix;
    this.timeout = timeout;
    this.#calls = new ScriptCalls(commands, clock);
  }

  /** The beginning of the Redis keys of an owner. */
  readonly headOf = ({ text }: Pick<Owner, 'text'>): string => `${this.prefix}:{${text}`;

  readonly keyOf = ({ owner, id }: KeptKey): string => `${this.headOf(owner)}}${id}`;

  /** The state under a Redis key, or nothing for another key. */
  found(redisKey: string): FoundKey[] {
    const parsed = parseStateKey(this.prefix, redisKey);
    if (!parsed || parsed.scope === PROBE_SCOPE) return [];
    const { head, id, ...owner } = parsed;
    return [{ owner: { ...owner, text: head.slice(this.prefix.length + 2) }, id }];
  }

  async servers(): Promise<ReturnType<Commands['servers']>> {
    if (!this.commands.ready()) await this.ask(this.commands.connected());
    return this.commands.servers();
  }

  /** The time by the server's clock, ms since 1970. */
  async now(): Promise<number> {
    if (this.clock) return this.clock();
    const [server] = await this.servers();
    const [seconds, micros] = (await this.ask(server!.send(['TIME']))) as [string, string];
    return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
  }

  /** Runs a script that limiters do not use. */
  run(script: Script, keys: readonly string[], args: string[]): Promise<unknown> {
    const set: PolicySet = { name: '', policies: [], timeout: this.timeout };
    const call = { script, keys, args, timeout: this.timeout, asked: [{ set, key: '' }] };
    return this.#of(keys, () => this.#calls.run(call));
  }

  call(command: string, key: string, ...args: readonly string[]): Promise<unknown> {
    return this.#of([key], () => this.commands.call(command, key, ...args));
  }

  async #of(keys: readonly string[], send: () => Promise<unknown>): Promise<unknown> {
    if (!this.commands.ready()) await this.ask(this.commands.connected());
    return this.ask(send()).catch((error: unknown) => refuse(error, keys));
  }

  /** Waits for an answer, within the time limit. @throws HeadgateError `HEADGATE_STORE_TIMEOUT` */
  ask<T>(answer: Promise<T>): Promise<T> {
    return within(this.timeout, answer, () => {
      const message = `The server has not answered within ${this.timeout} ms. Set a longer \`timeout\`.`;
      throw new HeadgateError('HEADGATE_STORE_TIMEOUT', message);
    });
  }

  /**
   * Looks at the state of many keys at once, like `peek` with a cost of 1. Takes the parts before the tag of their Redis keys, so that
   * hashed keys work, too.
   *
   * @returns for each head, the store's answer or its error
   */
  async look(set: PolicySet, heads: readonly string[]): Promise<(Reply | Error)[]> {
    const calls = batches(heads, this.commands.cluster ? 1 : KEYS_PER_CALL);
    return (await Promise.all(calls.map((some) => this.#look(set, some)))).flat();
  }

  /** @param serverTime the server's time, if this machine's time is too far from it for a calendar policy */
  async #look(set: PolicySet, heads: readonly string[], serverTime?: number): Promise<(Reply | Error)[]> {
    const { policies } = set;
    const looks = looksOf(set);
    const ids = [...policies.map(({ id }) => id), ...tagsOf(set).map(({ tag }) => tag)];
    const keys = heads.flatMap((head) => ids.map((id) => `${head}}${id}`));
    const last = looks.flatMap(({ lastOfLooks }) => lastOfLooks ?? []);
    for (const { tag } of last) keys.push(...heads.map((head) => `${head}}${tag}`));
    const options = { prefix: this.prefix, stream: false };
    const own = ownArgs(looks, set, options);
    const { evaluateArgs } = argsOf(set, false, serverTime ?? this.clock?.() ?? Date.now(), own);
    const args = [...evaluateArgs];
    const queries = heads.map(() => lookOf({ set, key: '' }, ONE_UNIT));
    for (const { requestArgs } of looks)
      if (requestArgs) pushRequestArgs(args, requestArgs, queries, options);
    args.push(costArg(1, true));
    args.push(...last.map(({ arg }) => arg));
    const kernels = policies.map(({ kernel }) => kernel);
    const script = assemble('evaluate', kernels, partsOfLooks(set));
    try {
      return decode(await this.run(script, keys, args), heads.length, set, looks);
    } catch (error) {
      const time = timeToldBy(error);
      if (time === undefined || serverTime !== undefined) throw error;
      return this.#look(set, heads, time);
    }
  }
}

function refuse(error: unknown, keys: readonly string[]): never {
  if (!/WRONGTYPE/.test(String(error))) throw error;
  const named = keys.slice(0, 4).map((key) => printable(key).slice(0, MAX_KEY_LENGTH));
  const which = named.length > 1 ? `one of the keys ${named.join(', ')}` : `the key ${named.join()}`;
  throw new OtherKeyError(
    'HEADGATE_STORE_ERROR',
    `${which} has a value of another program (WRONGTYPE). Find out which program wrote it and delete it, or set the right \`prefix\`.`,
    { cause: error },
  );
}

/** The message of an error, for a change that could not be recorded. */
export const reasonOf = (error: unknown): string => withoutSecrets(withoutPage((error as Error).message));
