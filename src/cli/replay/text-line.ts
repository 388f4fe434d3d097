import { isIP } from 'node:net';
import { splitRequestLine, type LoggedRequest } from './request.js';
import { parseTime } from './time.js';

/**
 * The Common Log Format, and what begins like it (Combined, nginx's `main`, Apache's with the virtual host before it):
 * `host ident user [time] "request" status ...`
 */
const LINE =
  /^(\S+) (\S+ .*?) \[(\d\d\/[A-Za-z]{3}\/\d{4}:\d\d:\d\d:\d\d(?:\.\d+)? [+-]\d{4})\] "([^"\\]*(?:\\.[^"\\]*)*)" (\d{3}|-)(?: |$)/;

export interface TextLine extends LoggedRequest {
  readonly time: number;
}

/** Reads a line; a string says what is wrong with it. */
export function parseTextLine(line: string): TextLine | string {
  const match = LINE.exec(line);
  if (!match) return 'it is not in the Common or Combined Log Format, and not JSON';
  const time = parseTime(match[3]);
  if (time === undefined) return `its time [${match[3]}] cannot be read`;
  return new MatchedLine(match, time);
}

/** Takes apart only what is asked for. */
class MatchedLine implements TextLine {
  readonly #match: RegExpExecArray;
  readonly time: number;

  constructor(match: RegExpExecArray, time: number) {
    this.#match = match;
    this.time = time;
  }

  get address(): string {
    const first = this.#match[1]!;
    // A virtual host stands before the client: `www.example.com:443 192.0.2.1 - - [...`
    const second = isIP(first) === 0 ? this.#match[2]!.split(' ', 1)[0]! : '';
    return isIP(second) === 0 ? first : second;
  }

  get user(): string | undefined {
    const words = this.#match[2]!;
    const user = words.slice(words.lastIndexOf(' ') + 1);
    return user === '-' || user === '' ? undefined : user;
  }

  get method(): string | undefined {
    return splitRequestLine(this.#match[4]!).method;
  }

  get path(): string | undefined {
    return splitRequestLine(this.#match[4]!).path;
  }

  get status(): number | undefined {
    const status = this.#match[5]!;
    return status === '-' ? undefined : Number(status);
  }

  field(): undefined {
    return undefined;
  }
}
