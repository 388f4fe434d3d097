import { PROBE_SCOPE } from '../../contract/health.js';

/** The limiters of a server, by name, that lack a permission, and those that the server answers meanwhile. */
interface Rights {
  readonly refused: Set<string>;
  readonly answered: Set<string>;
}

/**
 * The limiters that servers refuse for lack of a permission. A limiter may need a command that another one does not, so such an error is no
 * failure of the server while the server answers other limiters.
 */
export class Refusals extends Map<string | undefined, Rights> {
  /** Records that a server refuses a limiter. @returns whether the server answers others */
  refuse(server: string | undefined, name: string): boolean {
    let rights = this.get(server);
    if (!rights) this.set(server, (rights = { refused: new Set(), answered: new Set() }));
    rights.refused.add(name);
    rights.answered.delete(name);
    return rights.answered.size > 0;
  }

  /** Records that a server answers a limiter. */
  answer(server: string | undefined, name: string): void {
    const rights = this.get(server);
    if (!rights) return;
    rights.refused.delete(name);
    if (name !== PROBE_SCOPE) rights.answered.add(name);
    if (rights.refused.size === 0) this.delete(server);
  }

  refuses(server: string | undefined, name: string): boolean {
    return this.get(server)?.refused.has(name) === true;
  }
}
