import type { Commands, ScriptCall } from '../clients/commands.js';
import { assemble, type ScriptName } from '../scripts.js';

/** A deadline that never passes, because a late write does no harm here. */
const NO_DEADLINE = String(Number.MAX_SAFE_INTEGER);

/** Errors of an ACL that forbids a command or a key to the user. */
const NOT_PERMITTED = /NOPERM|ACL failure|can't run this command|can't access/i;

/**
 * Calls beside the decisions, for operators of the limiters. Callers do not wait for them, and their errors are ignored. They are only sent
 * while the client is connected, and never make it connect. A call without permission is not tried again.
 */
export class Aside {
  readonly #commands: Commands;
  readonly #name: ScriptName;
  #isPermitted = true;

  constructor(commands: Commands, name: ScriptName) {
    this.#commands = commands;
    this.#name = name;
  }

  /** False after the server has refused these calls for lack of permission. */
  get isPermitted(): boolean {
    return this.#isPermitted;
  }

  /** @param done called when the call ended; `isDone` is true if it succeeded */
  send(
    keys: readonly string[],
    args: readonly string[],
    done: (isDone: boolean, reply?: unknown) => void = () => {},
  ): void {
    if (!this.#isPermitted || !this.#commands.ready()) {
      done(false);
      return;
    }
    // Always sends the whole script: these calls are rare, so a server that does not know the script needs no extra code.
    const { source } = assemble(this.#name, [], false);
    const call: ScriptCall = {
      keys,
      args: ['', ...args],
      deadline: () => NO_DEADLINE,
      done: (error, reply) => {
        if (error !== undefined && NOT_PERMITTED.test(error.message)) this.#isPermitted = false;
        done(error === undefined, reply);
      },
    };
    try {
      this.#commands.run('eval', source, call);
    } catch (error) {
      call.done(error as Error);
    }
  }
}
