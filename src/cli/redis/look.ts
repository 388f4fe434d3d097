import { OVERRIDE_TAG } from '../../contract/overrides.js';
import { argsOf, recordsSign } from '../../stores/redis/plans.js';
import { assemble } from '../../stores/redis/scripts.js';
import { BAN_TAG } from '../../stores/keys.js';
import type { PolicySet, Reply } from '../../contract/store.js';
import { costArg, decode } from '../../stores/redis/wire.js';
import type { Session } from './session.js';

/** How many keys one script call looks at. It then runs for well under a millisecond. */
const TOGETHER = 50;

/**
 * Looks at the state of many keys at once, like `peek` with a cost of 1. It uses the part before the tag of their Redis keys, so that it
 * also works if only a key's hash is known.
 */
export class Looker {
  readonly #session: Session;
  readonly #together: number;

  constructor(session: Session) {
    this.#session = session;
    this.#together = session.commands.cluster ? 1 : TOGETHER;
  }

  /** @returns for each head, the store's answer or its error */
  async look(set: PolicySet, heads: readonly string[]): Promise<(Reply | Error)[]> {
    const calls: Promise<(Reply | Error)[]>[] = [];
    for (let at = 0; at < heads.length; at += this.#together) {
      calls.push(this.#ask(set, heads.slice(at, at + this.#together)));
    }
    return (await Promise.all(calls)).flat();
  }

  async #ask(set: PolicySet, heads: readonly string[]): Promise<(Reply | Error)[]> {
    const { policies, ban } = set;
    const ids = [...(ban ? [BAN_TAG] : []), ...policies.map(({ id }) => id)];
    const keys = heads.flatMap((head) => ids.map((id) => `${head}}${id}`));
    if (set.overrides) keys.push(...heads.map((head) => `${head}}${OVERRIDE_TAG}`));
    const { evaluateArgs } = argsOf(set, false, Date.now());
    const args = [...evaluateArgs, costArg(1, true)];
    if (policies.some(({ traits }) => traits.holdsSlots)) args.push(...heads.map(() => ''));
    if (set.overrides) args.push(recordsSign(set));
    const kernels = policies.map(({ kernel }) => kernel);
    const script = assemble('evaluate', kernels, ban !== undefined, set.overrides !== undefined);
    const reply = await this.#session.run(script, keys, args);
    return decode(reply, heads.length, set);
  }
}
