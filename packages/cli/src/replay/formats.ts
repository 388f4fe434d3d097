import { JSON_NAMES, planner, TEXT_NAMES, W3C_NAMES, type Fields, type Names } from './fields.js';
import { LoggedRequest } from './logged-request.js';
import { isBareRequest, textFields } from './text-lines.js';

/** The reading of a line. `'skipped'` is a line about the log itself; a `problem` describes a line that cannot be read. */
export type Reading = LoggedRequest | 'skipped' | { readonly problem: string };

export const FORMATS =
  'the Common or the Combined Log Format (nginx, Apache), lines of JSON or of logfmt, the lines of AWS load balancers, W3C logs ' +
  '(CloudFront, IIS); also behind the prefixes of containers, syslog and Heroku';

/** Fields with a text that may be a line of another format: morgan in winston, collectors of containers, journald. */
const WRAPPERS = ['message', 'msg', 'log', 'line', 'MESSAGE', 'textPayload'];

/** Caddy also logs the requests of its errors and of its handlers. */
const CADDY_OTHERS = /^http\.(?!log\.access)/;

/** CloudFront's columns, for a part of a log without `#Fields`. */
const CLOUDFRONT = 'date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status'.split(
  ' ',
);
const CLOUDFRONT_LINE = /^\d{4}-\d\d-\d\d\t\d\d:\d\d:\d\d\t/;

/** A pair of logfmt: `status=200` or `path="/a b"`. */
const PAIR = /([\w.@:-]+)=(?:"((?:[^"\\]|\\.)*)"|(\S*))(?: |$)/y;

/** Azure's App Service has the fields of a request as a text of JSON within JSON. */
function withProperties(value: Fields): Fields {
  const { properties } = value;
  if (typeof properties !== 'string' || !properties.startsWith('{')) return value;
  return { ...value, properties: JSON.parse(properties) as unknown };
}

/** Reads the lines of one log. Each line may have its own format. */
export class Formats {
  readonly #ofJson: ReturnType<typeof planner>;
  readonly #ofW3c: ReturnType<typeof planner>;
  readonly #ofText = planner(TEXT_NAMES);
  /** The columns of W3C lines, which a line before them names. */
  #columns: readonly string[] | undefined;

  /** @param names the fields that options name, in formats with named fields */
  constructor(names: Partial<Names>) {
    this.#ofJson = planner({ ...JSON_NAMES, ...names });
    this.#ofW3c = planner({ ...W3C_NAMES, ...names });
  }

  read(line: string): Reading {
    const reading = line.startsWith('{') ? this.#json(line) : (this.#w3c(line) ?? this.#text(line));
    return (
      reading ??
      this.#tail(line) ??
      this.#logfmt(line) ?? {
        problem: isBareRequest(line)
          ? "no client and no time; with morgan, log the format 'combined'"
          : 'unknown format',
      }
    );
  }

  #json(line: string): Reading {
    try {
      const value: unknown = JSON.parse(line);
      if (typeof value === 'object' && value !== null && !Array.isArray(value))
        return this.#object(withProperties(value as Fields));
    } catch {
      // The problem is returned below.
    }
    return { problem: 'not a valid object of JSON' };
  }

  #object(value: Fields): Reading {
    const { logger } = value;
    if (typeof logger === 'string' && CADDY_OTHERS.test(logger)) return 'skipped';
    const request = this.#request(value);
    const inner = request.part('address') === undefined ? this.#wrapped(value) : undefined;
    if (inner && request.time !== undefined) inner.collected = new Date(request.time).toISOString();
    return inner ?? request;
  }

  #request(value: Fields): LoggedRequest {
    return new LoggedRequest(value, this.#ofJson(value));
  }

  /** The request in a text of the object. */
  #wrapped(value: Fields): LoggedRequest | undefined {
    for (const name of WRAPPERS) {
      const inner = value[name];
      if (typeof inner !== 'string') continue;
      const line = inner.trimEnd();
      const reading = line.startsWith('{') ? this.#json(line) : this.#text(line);
      if (reading instanceof LoggedRequest) return reading;
    }
    return undefined;
  }

  #text(line: string): LoggedRequest | undefined {
    const fields = textFields(line);
    return fields && new LoggedRequest(fields, this.#ofText(fields), false);
  }

  /** W3C logs, as CloudFront (with tabs) and IIS write them. */
  #w3c(line: string): Reading | undefined {
    if (line.startsWith('#')) {
      if (line.startsWith('#Fields:')) this.#columns = line.slice('#Fields:'.length).trim().split(/\s+/);
      return /^#[A-Z][\w-]*:/.test(line) ? 'skipped' : undefined;
    }
    const isCloudFront = CLOUDFRONT_LINE.test(line);
    if (!this.#columns && !isCloudFront) return undefined;
    const values = line.split(line.includes('\t') ? '\t' : ' ');
    const columns = this.#columns?.length === values.length ? this.#columns : isCloudFront && CLOUDFRONT;
    if (!columns) return undefined;
    const fields: Record<string, unknown> = {};
    for (let i = 0; i < columns.length; i++) fields[columns[i]!] = values[i];
    return new LoggedRequest(fields, this.#ofW3c(fields));
  }

  /** JSON behind other words, such as the names of a pod and a container. */
  #tail(line: string): Reading | undefined {
    const start = line.endsWith('}') ? line.indexOf('{') : -1;
    const reading = start > 0 ? this.#json(line.slice(start)) : undefined;
    return reading === 'skipped' || reading instanceof LoggedRequest ? reading : undefined;
  }

  /** Logfmt, as Heroku's router and many programs in Go write it. */
  #logfmt(line: string): LoggedRequest | undefined {
    const fields: Record<string, string> = {};
    let pairs = 0;
    let end = 0;
    PAIR.lastIndex = 0;
    for (let pair = PAIR.exec(line); pair; pair = end < line.length ? PAIR.exec(line) : null) {
      fields[pair[1]!] = pair[2] ?? pair[3]!;
      pairs += 1;
      end = PAIR.lastIndex;
    }
    return pairs > 1 && end >= line.length ? this.#request(fields) : undefined;
  }
}
