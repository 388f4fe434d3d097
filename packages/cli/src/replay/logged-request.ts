import { readerOf, textOf, type Fields, type Part, type Plan } from './fields.js';
import { parseTime } from './time.js';

/** The first line of a request in Fastify's log. */
const BEGINNING = 'incoming request';

/** A line with a status and one of these is the last one of its request. */
const DURATIONS = ['duration', 'duration_ms', 'durationMs', 'elapsed', 'elapsed_time', 'latency'];

/** The relation of a line to other lines about the same request. */
export interface RequestLine {
  /** The id of the request, with the process that wrote the line, because loggers count requests from 1. */
  readonly id: string;
  readonly begins: boolean;
  /** Whether the line is the last one: the response is done. */
  readonly ends: boolean;
}

/** The facts in a log about one request. Only the requested parts are read. */
export class LoggedRequest {
  readonly #fields: Fields;
  readonly #plan: Plan;
  readonly named: boolean;
  #later: LoggedRequest | undefined;
  /** The time at which a collector received the line. */
  collected: string | undefined;

  constructor(fields: Fields, plan: Plan, named = true) {
    this.#fields = fields;
    this.#plan = plan;
    this.named = named;
  }

  /** Adds a later line. The parts of earlier lines count, except for the status. */
  join(later: LoggedRequest): this {
    if (this.#later) this.#later.join(later);
    else this.#later = later;
    return this;
  }

  /** The address may be a list as in X-Forwarded-For: the client's address, then those of proxies. The path has no query. */
  part(name: Part): string | undefined {
    if (this.#later === undefined) return this.#own(name);
    if (name === 'status') return this.#later.part(name) ?? this.#own(name);
    return this.#own(name) ?? this.#later.part(name);
  }

  /** Any field by its name, or in JSON by its path (`req.id`). Undefined if the format has no names. */
  field(name: string): string | undefined {
    if (!this.named) return undefined;
    return textOf(readerOf(name, this.#fields)?.(this.#fields)) ?? this.#later?.field(name);
  }

  /** The time at which the request came, ms since the epoch, or `undefined` if it cannot be read. */
  get time(): number | undefined {
    for (const read of this.#plan.time) {
      const time = parseTime(read(this.#fields));
      if (time !== undefined) return time;
    }
    return parseTime(this.collected) ?? this.#later?.time;
  }

  /** Undefined if the line has no id of a request. */
  get line(): RequestLine | undefined {
    const id = this.#text('id');
    if (id === undefined) return undefined;
    const { hostname, pid, 'process.pid': process, msg, message, responseTime } = this.#fields;
    const hasDuration = DURATIONS.some((name) => this.#fields[name] !== undefined);
    return {
      id: `${textOf(hostname) ?? ''} ${textOf(pid ?? process) ?? ''} ${id}`,
      begins: msg === BEGINNING || message === BEGINNING,
      // Other lines may have the duration of a part of the work.
      ends: responseTime !== undefined || (hasDuration && this.#text('status') !== undefined),
    };
  }

  #own(name: Part): string | undefined {
    const text = this.#text(name);
    if (text === undefined) return undefined;
    if (name === 'path') return pathOf(text);
    return name === 'method' ? text.toUpperCase() : text;
  }

  #text(name: Part | 'id'): string | undefined {
    for (const read of this.#plan[name]) {
      const text = textOf(read(this.#fields));
      if (text !== undefined) return text;
    }
    return undefined;
  }
}

function pathOf(url: string): string {
  const query = url.indexOf('?');
  const whole = query === -1 ? url : url.slice(0, query);
  if (whole.startsWith('/')) return whole;
  const server = /^[a-z][a-z\d+.-]*:\/\/[^/]*/i.exec(whole);
  return server ? whole.slice(server[0].length) || '/' : whole;
}
