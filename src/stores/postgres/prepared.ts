// Prepared statements, which the server neither parses nor plans anew. Only a session of its own keeps them: behind a pooler such as PgBouncer,
// each transaction may run in another session.
import { oncePer } from '../../common/lazy.js';
import { STATEMENTS, type StatementName, type Texts } from './statements.js';

/** A part of the names, so that two copies of Headgate in a process use different statements. */
const TOKEN = Math.random().toString(36).slice(2, 10);

/** The number of each table in the names of its statements. Sessions share the numbers, so that a name has one meaning in whichever session it arrives. */
const numbers = new Map<string, number>();

function numberOf(table: string): number {
  const number = numbers.get(table) ?? numbers.size;
  numbers.set(table, number);
  return number;
}

const NAMES = Object.keys(STATEMENTS) as StatementName[];

export class Session {
  /** The id of the server's process, as the client learned it when it connected. Poolers invent an id. */
  readonly #pid: string | undefined;
  /** Whether the server's process is the client's own. Undefined until a transaction has asked. */
  #isOwn: boolean | undefined;
  readonly #tables = new Set<string>();

  /** @param pid undefined if the client does not know the process */
  constructor(pid: string | undefined) {
    this.#pid = pid;
    if (pid === undefined) this.#isOwn = false;
  }

  /** Learns which process of the server has answered. */
  answeredBy(pid: string): void {
    this.#isOwn = this.#isOwn !== false && pid === this.#pid;
  }

  /** The texts for a table. The first transaction of a session does without prepared statements, so that it needs no further round trip. */
  textsOf(table: string): Texts {
    if (!this.#isOwn)
      return { prepare: () => '', run: (name, ...values) => STATEMENTS[name].sql(table, values) };
    const isPrepared = this.#tables.has(table);
    // If the text fails before its end, the next one fails, too, and then the session does without prepared statements.
    this.#tables.add(table);
    const number = numberOf(table);
    const nameOf = (name: StatementName): string => `headgate_${TOKEN}_${name}_${number}`;
    return {
      prepare: () =>
        isPrepared ? '' : NAMES.map((name) => `${prepareText(nameOf(name), name, table)};\n`).join(''),
      run: (name, ...values) => `EXECUTE ${nameOf(name)} (${values.join(',')})`,
    };
  }

  /** Does without prepared statements, because the session has lost them. @returns whether it has had any */
  lose(): boolean {
    const hadStatements = this.#tables.size > 0;
    this.#tables.clear();
    this.#isOwn = false;
    return hadStatements;
  }
}

function prepareText(name: string, statement: StatementName, table: string): string {
  const { types, sql } = STATEMENTS[statement];
  const values = types.split(',').map((_, i) => `$${i + 1}`);
  return `PREPARE ${name} (${types}) AS ${sql(table, values)}`;
}

/** The session of a client, the same each time that a pool returns the client. Only clients of `pg` know the id of the server's process. */
export const sessionOf = oncePer((client: object) => {
  const { processID: pid } = client as { processID?: unknown };
  return new Session(typeof pid === 'number' ? String(pid) : undefined);
});
