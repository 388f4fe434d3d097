import { warnOfBackground } from '../../../common/background.js';
import { isNotPermitted } from '../../store-error.js';
import type { Commands, ScriptCall } from '../clients/commands.js';
import { assemble, type ScriptName } from '../scripts.js';

/** A deadline that never passes, for calls that do no harm if they are late. */
export const NO_DEADLINE = String(Number.MAX_SAFE_INTEGER);

/**
 * Calls beside the decisions, for operators of the limiters. Callers do not wait for such calls, and errors are reported once. The calls are only
 * sent while the client is connected, and never open a connection. A call without permission is not tried again.
 */
export class BestEffort {
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

  get isReady(): boolean {
    return this.#commands.ready();
  }

  /** @param done called when the call ended; `isDone` is true if it succeeded */
  send(
    keys: readonly string[],
    args: readonly string[],
    done: (isDone: boolean, reply?: unknown) => void = () => {},
  ): void {
    if (!this.#isPermitted || !this.isReady) {
      done(false);
      return;
    }
    // Always sends the whole script: the calls are rare, so a server without the script needs no extra code.
    const { source } = assemble(this.#name);
    const call: ScriptCall = {
      keys,
      args: ['', ...args],
      deadline: () => NO_DEADLINE,
      done: (error, reply) => {
        if (error !== undefined && isNotPermitted(error)) this.#isPermitted = false;
        else if (error !== undefined) warnOfBackground(`The call ${this.#name} for operators failed`, error);
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
