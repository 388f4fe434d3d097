import { performance } from '../../common/real-time.js';
import { PROBE_SCOPE } from '../../contract/health.js';

/** The limiters of a server, by name, that lack a permission, and those that the server answers meanwhile. */
interface Rights {
  readonly refused: Set<string>;
  readonly reported: Set<string>;
  /** With the time of the last answer, by `performance.now()`. */
  readonly answered: Map<string, number>;
}

/** An answer proves for this time that the server answers, ms. */
const ANSWER_LIFE_MS = 60_000;

/**
 * The limiters that servers refuse for lack of a permission. A limiter may need a command that another one does not, so such an error is no
 * failure of the server while the server answers other limiters.
 */
export class Refusals extends Map<string | undefined, Rights> {
  /** Records that a server refuses a limiter. @returns whether the server answers others, and if so, whether to report the limiter */
  refuse(server: string | undefined, name: string): 'all' | 'first' | 'again' {
    let rights = this.get(server);
    if (!rights)
      this.set(server, (rights = { refused: new Set(), reported: new Set(), answered: new Map() }));
    rights.refused.add(name);
    rights.answered.delete(name);
    const oldest = performance.now() - ANSWER_LIFE_MS;
    if (![...rights.answered.values()].some((at) => at > oldest)) return 'all';
    if (rights.reported.has(name)) return 'again';
    rights.reported.add(name);
    return 'first';
  }

  answer(server: string | undefined, name: string): void {
    const rights = this.get(server);
    if (!rights) return;
    rights.refused.delete(name);
    rights.reported.delete(name);
    if (name !== PROBE_SCOPE) rights.answered.set(name, performance.now());
    if (rights.refused.size === 0) this.delete(server);
  }

  refuses(server: string | undefined, name: string): boolean {
    return this.get(server)?.refused.has(name) === true;
  }
}
