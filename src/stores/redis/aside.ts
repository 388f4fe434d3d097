import type { Commands } from './clients/commands.js';
import { assemble, type ScriptName } from './scripts.js';

/** A deadline that is never over: what is written late does no harm. */
const ANY_TIME = String(Number.MAX_SAFE_INTEGER);

/** The user of an ACL may not do it. */
const NOT_PERMITTED = /NOPERM|ACL failure|can't run this command|can't access/i;

/**
 * Calls beside the decisions, for whoever operates the limiters. Nobody waits for them; none is sent while the client is not
 * connected, or makes it connect; what they fail with concerns nobody. Once a user may not run one, it is not tried again.
 */
export class Aside {
  readonly #commands: Commands;
  readonly #name: ScriptName;
  #isPermitted = true;

  constructor(commands: Commands, name: ScriptName) {
    this.#commands = commands;
    this.#name = name;
  }

  /** False once it is known that no call will ever be run. */
  get isPermitted(): boolean {
    return this.#isPermitted;
  }

  /** @param done is told when it has been answered, and whether it was done */
  send(keys: readonly string[], args: readonly string[], done: (isDone: boolean) => void = () => {}): void {
    if (!this.#isPermitted || !this.#commands.ready()) {
      done(false);
      return;
    }
    // The whole text: calls are rare, and a server that does not know the script is no case of its own.
    const { source } = assemble(this.#name, [], false);
    const answered = (error: Error | undefined): void => {
      if (error !== undefined && NOT_PERMITTED.test(error.message)) this.#isPermitted = false;
      done(error === undefined);
    };
    try {
      this.#commands.run('eval', source, keys, ['', ...args], () => ANY_TIME, answered);
    } catch (error) {
      answered(error as Error);
    }
  }
}
