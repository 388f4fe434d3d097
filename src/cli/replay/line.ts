import type { Key } from '../../index.js';
import { clients, hostName, type ClientOf, type ClientOptions } from './addresses.js';
import type { LoggedKey } from './dimensions.js';
import { Doubts } from './doubts.js';
import { Joiner } from './join.js';
import { KNOWN_TIMES, parseJsonLine, parseLogfmt } from './json-lines.js';
import { normal, textOf, type LoggedRequest, type Part, type Reading } from './logged-request.js';
import { statusOf, type Match, type MatchedPart } from './match.js';
import { isBareRequest, isOddClient, parseTextLine } from './text-lines.js';
import { parseTime } from './time.js';
import { unwrapper } from './unwrap.js';
import { w3cReader } from './w3c-lines.js';

/** One request of a log. */
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
  /** The fields of the time and of the client, in formats with named fields. Default: where loggers usually write them. */
  readonly timeField: string | undefined;
  readonly keyField: string | undefined;
  /** The fields of other parts of a request. */
  readonly fields?: Readonly<Partial<Record<Part, string>>>;
  /** Selects the requests that count. */
  readonly match: Match | undefined;
  /** Whether to read paths and statuses, too. */
  readonly details?: boolean;
}

/** The formats, for messages. */
export const FORMATS =
  'the Common or the Combined Log Format (nginx, Apache), lines of JSON or of logfmt, the lines of AWS load balancers, W3C logs ' +
  '(CloudFront, IIS); also behind the prefixes of containers, syslog and Heroku';

/** Reads the lines of one log. Each line may have its own format. */
export class LineReader {
  readonly #options: LineOptions;
  readonly #clientOf: ClientOf;
  readonly #unwrap = unwrapper();
  readonly #w3c = w3cReader();
  readonly #joiner: Joiner;
  readonly #doubts = new Doubts();

  constructor(options: LineOptions) {
    this.#options = options;
    this.#clientOf = clients(options);
    this.#joiner = new Joiner((request) => request.timeOf(options.timeField));
  }

  read(line: string): Parsed {
    const found = this.#unwrap(line);
    if (found === undefined) return 'joined';
    const { text, time } = found;
    const reading = parse(text, this.#w3c);
    if (reading === 'skipped' || !('part' in reading)) return reading;
    const request = this.#joiner.add(this.#withFields(reading, time));
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

  /** Reads the parts from the fields that options name, and the time of a line without one from its collector's. */
  #withFields(request: LoggedRequest, time: string | undefined): LoggedRequest {
    const { fields = {} } = this.#options;
    const isNamed = request.named && Object.keys(fields).length > 0;
    if (!isNamed && time === undefined) return request;
    return {
      ...request,
      part(name) {
        const field = isNamed ? fields[name] : undefined;
        return field === undefined ? request.part(name) : normal(name, textOf(request.field(field)));
      },
      timeOf: (field) => request.timeOf(field) ?? (field === undefined ? parseTime(time) : undefined),
    };
  }

  #entryOf(request: LoggedRequest): Parsed {
    const { match, timeField, details = false } = this.#options;
    if (match && !this.#matches(match, request)) return 'skipped';
    const key = this.#keyOf(request);
    if (key === undefined) return this.#withoutKey(request);
    const time = request.timeOf(timeField);
    if (time === undefined) {
      const tried = timeField === undefined ? `${KNOWN_TIMES} and others were tried` : `of ${timeField}`;
      return { problem: `it has no time that can be read (${tried}; see --time-field)` };
    }
    this.#doubts.request(time);
    return details ? { time, key, path: request.part('path'), status: statusOf(request) } : { time, key };
  }

  #matches(match: Match, request: LoggedRequest): boolean {
    // Lines of other kinds have none of the parts.
    if (request.part('address') !== undefined || request.part('method') !== undefined)
      this.#doubts.filtered([...match.parts].filter((part: MatchedPart) => request.part(part) === undefined));
    return match.matches(request);
  }

  #withoutKey(request: LoggedRequest): Parsed {
    const { keys, keyField } = this.#options;
    const address = request.part('address');
    const isByClient = keys.some(({ parts }) => parts.includes('ip'));
    if (address !== undefined && keyField === undefined && isByClient && hostName(address) === undefined) {
      return {
        problem: `its client ${JSON.stringify(address.slice(0, 50))} is neither an address nor a host's name`,
      };
    }
    // Programs also write other lines, and some requests have no user.
    return 'skipped';
  }

  #keyOf(request: LoggedRequest): Key | undefined {
    const { keys } = this.#options;
    if (keys.length === 1) return this.#textOfKey(keys[0]!, request);
    const found: Record<string, string> = {};
    let isAny = false;
    for (const key of keys) {
      const text = this.#textOfKey(key, request);
      if (text === undefined) continue;
      found[key.dimension] = text;
      isAny = true;
    }
    return isAny ? found : undefined;
  }

  #textOfKey({ parts }: LoggedKey, request: LoggedRequest): string | undefined {
    if (parts.length === 1) return this.#part(parts[0]!, request);
    const texts = parts.map((word) => this.#part(word, request));
    return texts.includes(undefined) ? undefined : texts.join(' ');
  }

  #part(word: string, request: LoggedRequest): string | undefined {
    if (word === 'ip') return this.#client(request);
    if (word === 'user' || word === 'path' || word === 'method') return request.part(word);
    return textOf(request.field(word));
  }

  #client(request: LoggedRequest): string | undefined {
    const { keyField } = this.#options;
    if (keyField !== undefined && request.named) {
      const text = textOf(request.field(keyField));
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

function parse(text: string, w3c: ReturnType<typeof w3cReader>): Reading {
  return (
    (text.startsWith('{') ? parseJson(text) : (w3c(text) ?? parseTextLine(text))) ??
    parseTail(text) ??
    parseLogfmt(text) ?? {
      problem: isBareRequest(text)
        ? "it has neither a client nor a time: with morgan, log the format 'combined'"
        : 'it is in none of the formats that are read',
    }
  );
}

const parseJson = (text: string): Reading =>
  parseJsonLine(text, (inner) => (inner.startsWith('{') ? parseJson(inner) : parseTextLine(inner)));

/** Reads a line of JSON behind other words, such as the names of a pod and a container. */
function parseTail(text: string): Reading | undefined {
  const start = text.endsWith('}') ? text.indexOf('{') : -1;
  const reading = start > 0 ? parseJson(text.slice(start)) : undefined;
  return reading !== undefined && typeof reading === 'object' && 'problem' in reading ? undefined : reading;
}
