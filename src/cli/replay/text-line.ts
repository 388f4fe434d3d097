import { isIP } from 'node:net';
import { present, splitRequestLine, type LoggedRequest } from './request.js';
import { parseTime } from './time.js';

/**
 * The Common Log Format, and formats that begin like it (Combined, nginx's `main`, Apache's with the virtual host first): `host ident user
 * [time] "request" status ...`. The host may also be a list of addresses.
 */
const COMMON =
  /^((?:[^\s,]+, ?)*\S+) (\S+ .*?) \[(\d\d\/[A-Za-z]{3}\/\d{4}:\d\d:\d\d:\d\d(?:\.\d+)? [+-]\d{4})\] "([^"\\]*(?:\\.[^"\\]*)*)" (\d{3}|-)(?: |$)/;

const LIST = /^(?:[^\s,]+, ?)*\S+/;

/**
 * The format of AWS' Application and Classic Load Balancers: `[type] time name client:port target:port 3 times, 2 statuses, 2 sizes
 * "request" ...`
 */
const BALANCER =
  /^(?:\w+ )?(\d{4}-\d\d-\d\dT[\d:.]+Z) \S+ (\S+):\d+ \S+ (?:-?[\d.]+ ){3}(\d{3}|-) \S+ \S+ \S+ "([^"\\]*(?:\\.[^"\\]*)*)"/;

/** When the request came. An Application Load Balancer writes this after the rule's number. */
const CREATED = /" (?:\d+|-) (\d{4}-\d\d-\d\dT[\d:.]+Z) "/;

/** Reads a line. Undefined if it has none of these formats. */
export function parseTextLine(line: string): LoggedRequest | undefined {
  const common = COMMON.exec(line);
  if (common) {
    const [, host, names, time, request, status] = common;
    return new TextLine(host!, names!, time!, request!, status!);
  }
  const balancer = BALANCER.exec(line);
  if (!balancer) return undefined;
  const [, done, client, status, request] = balancer;
  return new TextLine(client!, '- -', CREATED.exec(line)?.[1] ?? done!, request!, status!);
}

/** Only the requested parts are read. */
class TextLine implements LoggedRequest {
  readonly named = false;
  readonly #host: string;
  /** Ident and user; if a virtual host comes first, the client before them. */
  readonly #names: string;
  readonly #time: string;
  readonly #request: string;
  readonly #status: string;

  constructor(host: string, names: string, time: string, request: string, status: string) {
    this.#host = host;
    this.#names = names;
    this.#time = time;
    this.#request = request;
    this.#status = status;
  }

  timeOf(): number | undefined {
    return parseTime(this.#time);
  }

  get address(): string | undefined {
    const host = this.#host;
    if (isAddresses(host)) return host;
    // A virtual host stands before the client: `www.example.com:443 192.0.2.1 - - [...`
    const [second] = LIST.exec(this.#names)!;
    return isAddresses(second) ? second : present(host);
  }

  get user(): string | undefined {
    return present(this.#names.slice(this.#names.lastIndexOf(' ') + 1));
  }

  get method(): string | undefined {
    return splitRequestLine(this.#request).method;
  }

  get path(): string | undefined {
    return splitRequestLine(this.#request).path;
  }

  get status(): number | undefined {
    return this.#status === '-' ? undefined : Number(this.#status);
  }

  field(): undefined {
    return undefined;
  }
}

/** Whether a text is an address, or a list that begins with one. */
function isAddresses(text: string): boolean {
  const comma = text.indexOf(',');
  return isIP(comma === -1 ? text : text.slice(0, comma)) !== 0;
}
