import { commandsOf } from '../../stores/clients.js';
import { ScriptCalls } from '../../stores/calls.js';
import { assemble } from '../../stores/scripts.js';
import { BAN_TAG } from '../../stores/keys.js';
import type { PolicySet, Reply } from '../../stores/store.js';
import { decode, policyArgs } from '../../stores/wire.js';
import type { Session } from './session.js';

/** How many keys are looked at in one script call: it runs for well under a millisecond. */
const TOGETHER = 50;

/**
 * Looks at the state of many keys at once, as `peek` does with a cost of 1, by what stands before the tag in their Redis keys:
 * so also at those whose own key is not known, but only its hash.
 */
export class Looker {
  readonly #calls: ScriptCalls;
  readonly #together: number;
  readonly #timeout: number;

  constructor({ connection, target }: Session) {
    const commands = commandsOf(connection.client);
    this.#calls = new ScriptCalls(commands, undefined);
    this.#together = commands.cluster ? 1 : TOGETHER;
    this.#timeout = target.timeout;
  }

  /** @returns per head what the store answers, or why it cannot */
  async look(set: PolicySet, heads: readonly string[]): Promise<(Reply | Error)[]> {
    const calls: Promise<(Reply | Error)[]>[] = [];
    for (let at = 0; at < heads.length; at += this.#together) {
      calls.push(this.#ask(set, heads.slice(at, at + this.#together)));
    }
    return (await Promise.all(calls)).flat();
  }

  async #ask({ policies, ban }: PolicySet, heads: readonly string[]): Promise<(Reply | Error)[]> {
    const kernels = policies.map(({ kernel }) => kernel);
    const ids = [...(ban ? [BAN_TAG] : []), ...policies.map(({ id }) => id)];
    const keys = heads.flatMap((head) => ids.map((id) => `${head}}${id}`));
    const args = ['', '', 'peek', ...policyArgs(policies), ...Object.values(ban ?? {}).map(String), '1'];
    if (kernels.includes('concurrency')) args.push(...heads.map(() => ''));
    const script = assemble('evaluate', kernels, ban !== undefined);
    const reply = await this.#calls.run(script, keys, args, performance.now() + this.#timeout);
    return decode(reply, heads.length, ban !== undefined, 3 * policies.length);
  }
}
