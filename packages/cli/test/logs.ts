// Logs for tests, in a directory of their own.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Transform } from 'node:stream';
import { gzipSync } from 'node:zlib';

export interface LoggedRequest {
  readonly time: number;
  readonly ip: string;
}

/** A line of JSON, with milliseconds. */
export const jsonLine = ({ time, ip }: LoggedRequest): string => JSON.stringify({ time, ip });

/** A line of the Combined Log Format, with whole seconds. */
export function combinedLine({ time, ip }: LoggedRequest): string {
  const [day, month, year, clock] = new Date(time).toUTCString().slice(5).split(' ');
  return `${ip} - - [${day}/${month}/${year}:${clock} +0000] "GET / HTTP/1.1" 200 1 "-" "test"`;
}

export class LogDirectory {
  readonly path = mkdtempSync(join(tmpdir(), 'headgate-logs-'));

  /** Writes a file and returns its name. */
  write(name: string, content: string | Buffer | readonly string[]): string {
    const bytes =
      typeof content === 'string' || Buffer.isBuffer(content) ? content : `${content.join('\n')}\n`;
    writeFileSync(join(this.path, name), bytes);
    return name;
  }

  gzip(name: string, lines: readonly string[]): string {
    return this.write(name, gzipSync(`${lines.join('\n')}\n`));
  }

  remove(): void {
    rmSync(this.path, { recursive: true });
  }
}

/** A terminal to which progress is written; when this title first comes, `change` is called. */
export function watching(title: string, change: () => void) {
  let changed = false;
  const stderr = new Transform({
    transform(chunk: Buffer, _, done) {
      if (!changed && chunk.toString().includes(title)) {
        changed = true;
        change();
      }
      done();
    },
  });
  return Object.assign(stderr, { isTTY: true, columns: 100, cursorTo() {}, clearLine() {} });
}

/** Requests of some clients, in bursts and pauses, always the same for a seed. */
export function trace(seed: number, length: number, start = Date.UTC(2026, 9, 5)): LoggedRequest[] {
  let state = seed;
  const below = (n: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
  let time = start;
  return Array.from({ length }, () => {
    time += [0, 0, 1, 40, 300, 2000][below(6)]!;
    return { time, ip: `10.0.0.${below(3) === 0 ? 1 : below(20)}` };
  });
}
