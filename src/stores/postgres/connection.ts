import { within } from '../../common/within.js';
import type { PostgresClient, PostgresResult } from './pool.js';
import { sessionOf, type Session } from './prepared.js';

/** SQL states of a transaction that the server undid in favour of others: serialization failure, deadlock. */
const CONFLICT = /^(40001|40P01)$/;

/** SQL states by which a server during its shutdown, or a pooler without its server, may answer even a commit that took effect. */
const SHUTDOWN = /^(57P0[1-5]|08)/;

/** The SQL state of a session that the server ended because of an idle transaction, before reading another text. */
const ENDED_IDLE = /^25P03$/;

/** SQL states of prepared statements that are missing, exist already, or no longer fit the table. */
const UNPREPARED = /^(26000|42P05|0A000)$/;

export class Failure extends Error {
  /** Whether certainly nothing was written. */
  readonly isUndone: boolean;
  /** Whether the session had lost its prepared statements. */
  readonly isUnprepared: boolean;

  constructor(cause: unknown, isUndone: boolean, isUnprepared = false) {
    super('', { cause });
    this.isUndone = isUndone;
    this.isUnprepared = isUnprepared;
  }

  /** Whether the same connection can try the transaction again. */
  get isConflict(): boolean {
    return this.isUndone && (this.isUnprepared || CONFLICT.test(stateOf(this.cause)));
  }

  /** Whether the connection was lost, so that the transaction can be tried again on another connection. */
  get isLost(): boolean {
    const { cause } = this;
    return (
      this.isUndone &&
      (!isOfServer(cause) || SHUTDOWN.test(stateOf(cause)) || ENDED_IDLE.test(stateOf(cause)))
    );
  }
}

/** The parsers of a query: none, because a user may have set a parser even for texts. Only `pg` has parsers for each query. */
const TYPES = { getTypeParser: () => String };

interface PgClient {
  query(config: { readonly text: string; readonly types: typeof TYPES }): Promise<PostgresResult>;
}

/** A connection for one transaction. It listens to its client from the first moment to the release. */
export class PostgresConnection {
  readonly session: Session;
  readonly #client: PostgresClient;
  /** The error by which the connection was lost between two texts. */
  #lost: Error | undefined;

  constructor(client: PostgresClient) {
    this.#client = client;
    this.session = sessionOf(client);
    // Without a listener, a connection that is lost between two texts would end the process.
    client.on('error', this.#lose);
  }

  readonly #lose = (error: Error): void => {
    this.#lost ??= error;
  };

  /** Runs a text before the commit. @returns the result of each statement @throws Failure */
  async prepare(text: string, ms: number): Promise<readonly [PostgresResult, ...PostgresResult[]]> {
    try {
      if (this.#lost) throw this.#lost;
      return await this.#query(text, ms);
    } catch (error) {
      throw new Failure(this.#lost ?? error, true, this.#isUnprepared(error));
    }
  }

  /** Runs the text with the commit. @returns the result of each statement @throws Failure */
  async commit(text: string, ms: number): Promise<readonly [PostgresResult, ...PostgresResult[]]> {
    if (this.#lost) throw new Failure(this.#lost, true);
    try {
      return await this.#query(text, ms);
    } catch (error) {
      throw new Failure(
        error,
        isOfServer(error) && !SHUTDOWN.test(stateOf(error)),
        this.#isUnprepared(error),
      );
    }
  }

  #isUnprepared(error: unknown): boolean {
    return UNPREPARED.test(stateOf(error)) && this.session.lose();
  }

  async #query(text: string, ms: number): Promise<readonly [PostgresResult, ...PostgresResult[]]> {
    const isPg = typeof (this.#client as { getTypeParser?: unknown }).getTypeParser === 'function';
    const asked = isPg
      ? (this.#client as unknown as PgClient).query({ text, types: TYPES })
      : this.#client.query(text);
    const reply: unknown = await within(ms, asked, () => {
      throw new Error('the server did not answer in time');
    });
    return (Array.isArray(reply) ? reply : [reply]) as [PostgresResult];
  }

  release(isBroken: boolean): void {
    // The pool closes a broken connection, which may report its end later.
    if (!isBroken) this.#client.removeListener('error', this.#lose);
    this.#client.release(isBroken);
  }
}

/** Whether the server sent an error. Errors of the network have codes of the same form, such as EPIPE, and no severity. */
function isOfServer(error: unknown): boolean {
  return typeof (error as { severity?: unknown } | undefined)?.severity === 'string';
}

/** The SQL state of an error, or Node's code, or an empty string. */
export function stateOf(error: unknown): string {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === 'string' ? code : '';
}
