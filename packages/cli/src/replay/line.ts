import type { Key } from 'headgate';
import { clients, hostName, type ClientOf, type ClientOptions } from './addresses.js';
import type { LoggedKey } from './dimensions.js';
import { Doubts } from './doubts.js';
import { KNOWN_TIMES, type Part } from './fields.js';
import { Formats } from './formats.js';
import { Joiner } from './join.js';
import type { LoggedRequest } from './logged-request.js';
import { statusOf, type Match } from './match.js';
import { isOddClient } from './text-lines.js';
import { Unwrapper } from './unwrap.js';

export interface Entry {
  /** ms since the epoch. */
  time: number;
  /** The key: a text; or, if `--key` names several dimensions, the keys that the line has. */
  readonly key: Key;
  /** Present if it was asked for, and the log has it. */
  readonly path?: string | undefined;
  readonly status?: number | undefined;
}

/**
 * The meaning of a line: a request; `'joined'` to another line of its request; nothing to replay (another kind of line, filtered out, no
 * key); or unreadable, and why.
 */
export type Parsed = Entry | 'joined' | 'skipped' | { readonly problem: string };

export interface LineOptions extends ClientOptions {
  /** The fields that make the key, or the key of each dimension. */
  readonly keys: readonly LoggedKey[];
  /** The field of the client, in formats with named fields. @default the usual fields of loggers */
  readonly keyField: string | undefined;
  /** The fields of other parts of a request. */
  readonly fields?: Readonly<Partial<Record<Part | 'time', string | undefined>>>;
  readonly match: Match | undefined;
  /** Whether to read paths and statuses, too. */
  readonly details?: boolean;
}

export class LineReader {
  readonly #options: LineOptions;
  readonly #timeField: string | undefined;
  readonly #clientOf: ClientOf;
  readonly #unwrapper = new Unwrapper();
  readonly #formats: Formats;
  readonly #joiner = new Joiner();
  readonly #doubts: Doubts;

  constructor(options: LineOptions) {
    const named = Object.entries(options.fields ?? {}).filter(([, name]) => name !== undefined);
    this.#options = options;
    this.#timeField = options.fields?.time;
    this.#clientOf = clients(options);
    const parts = [...(options.keyField === undefined ? [] : ['key']), ...named.map(([part]) => part)];
    this.#doubts = new Doubts(parts.map((part) => `--${part}-field`));
    this.#formats = new Formats(Object.fromEntries(named.map(([part, name]) => [part, [name!]])));
  }

  read(line: string): Parsed {
    const found = this.#unwrapper.read(line);
    if (found === undefined) return 'joined';
    const reading = this.#formats.read(found.text);
    if (reading === 'skipped' || 'problem' in reading) return reading;
    if (this.#timeField === undefined) reading.collected ??= found.time;
    this.#doubts.format(reading.named);
    const request = this.#joiner.add(reading);
    return request === undefined ? 'joined' : this.#entryOf(request);
  }

  /** Returns the requests without their last lines, at the end of the log. */
  rest(): Parsed[] {
    return this.#joiner.rest().map((request) => this.#entryOf(request));
  }

  /** Signs that the log was not read as it was meant. */
  get notes(): string[] {
    return this.#doubts.notes(this.#joiner.repeated);
  }

  /** The reason why the results cannot be right, or `undefined`. */
  get refusal(): string | undefined {
    return this.#doubts.refusal();
  }

  #entryOf(request: LoggedRequest): Parsed {
    const { match, details = false } = this.#options;
    if (match && !this.#matches(match, request)) return 'skipped';
    const key = this.#keyOf(request);
    if (key === undefined) return this.#withoutKey(request);
    const { time } = request;
    if (time === undefined) {
      const tried = this.#timeField ?? `${KNOWN_TIMES} and others`;
      return { problem: `no readable time in ${tried}; see --time-field` };
    }
    this.#doubts.request(time);
    return details ? { time, key, path: request.part('path'), status: statusOf(request) } : { time, key };
  }

  #matches({ parts, matches }: Match, request: LoggedRequest): boolean {
    // Lines of other kinds have none of the parts.
    if (request.part('address') !== undefined || request.part('method') !== undefined)
      this.#doubts.filtered(parts.filter((part) => request.part(part) === undefined));
    return matches(request);
  }

  #withoutKey(request: LoggedRequest): Parsed {
    const { keys, keyField } = this.#options;
    const address = request.part('address');
    const isByClient = keys.some(({ parts }) => parts.includes('ip'));
    if (address !== undefined && keyField === undefined && isByClient && hostName(address) === undefined) {
      return {
        problem: `the client ${JSON.stringify(address.slice(0, 50))} is neither an address nor the name of a host`,
      };
    }
    // Programs also write other lines, and some requests have no user.
    return 'skipped';
  }

  #keyOf(request: LoggedRequest): Key | undefined {
    const { keys } = this.#options;
    if (keys.length === 1) return this.#textOfKey(keys[0]!, request);
    const found: Record<string, string> = {};
    for (const key of keys) {
      const text = this.#textOfKey(key, request);
      if (text !== undefined) found[key.dimension] = text;
    }
    return Object.keys(found).length > 0 ? found : undefined;
  }

  #textOfKey({ parts }: LoggedKey, request: LoggedRequest): string | undefined {
    if (parts.length === 1) return this.#part(parts[0]!, request);
    const texts = parts.map((word) => this.#part(word, request));
    return texts.includes(undefined) ? undefined : texts.join(' ');
  }

  #part(word: string, request: LoggedRequest): string | undefined {
    if (word === 'ip') return this.#client(request);
    return word === 'user' || word === 'path' || word === 'method' ? request.part(word) : request.field(word);
  }

  #client(request: LoggedRequest): string | undefined {
    const { keyField } = this.#options;
    if (keyField !== undefined && request.named) {
      const text = request.field(keyField);
      return text === undefined ? undefined : (this.#clientOf(text) ?? text);
    }
    const address = request.part('address');
    if (address === undefined) return undefined;
    const client = this.#clientOf(address);
    const key = client ?? hostName(address);
    if (key !== undefined) this.#doubts.client(key, client === undefined && isOddClient(key), request.named);
    return key;
  }
}
