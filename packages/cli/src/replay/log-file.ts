import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { firstWhere } from './bisect.js';
import type { Entry, LineReader, Parsed } from './line.js';
import { checkReadable, type Source } from './source.js';
import { recordsOf } from './unwrap.js';

/** The longest line of a request, in bytes. A longer line is not kept in memory. */
const MAX_LINE = 2 ** 20;
/** The bytes that are unpacked at a time. */
const CHUNK = 2 ** 18;
const NEWLINE = 10;
const BYTE_ORDER_MARK = '\ufeff';
const MAX_SAMPLES = 5;
const SAMPLE_LENGTH = 120;

export interface Malformed {
  readonly line: number;
  readonly text: string;
  readonly problem: string;
}

export interface LogSummary {
  readonly name: string;
  readonly lines: number;
  readonly requests: number;
  /** Further lines about a request that another line has shown. */
  readonly joined: number;
  /** Lines that were read but are not replayed: no request, filtered out, or without a key. */
  readonly skipped: number;
  readonly malformed: number;
  /** The first unreadable lines. */
  readonly samples: readonly Malformed[];
  /** Requests with lines that came too late in the log for their time. */
  readonly late: number;
  /** A problem of the whole file. */
  readonly warning: string | undefined;
  /** Signs that the log was not read as it was meant, each with the option that mends it. */
  readonly notes: readonly string[];
}

/** One reading of a log, plain or gzip. */
export class LogFile {
  readonly source: Source;
  readonly #parser: () => LineReader;
  readonly #reader: LineReader;
  /** The bytes of the file that were read, before unpacking. */
  bytesRead = 0;
  readonly #found = {
    lines: 0,
    requests: 0,
    joined: 0,
    skipped: 0,
    malformed: 0,
    samples: [] as Malformed[],
    late: 0,
  };
  #damage: string | undefined;

  /** @param parser makes a reader of lines; in some formats, one line defines the meaning of the next ones */
  constructor(source: Source, parser: () => LineReader) {
    this.source = source;
    this.#parser = parser;
    this.#reader = parser();
  }

  /** The same file, to be read again from the start. */
  again(): LogFile {
    return new LogFile(this.source, this.#parser);
  }

  get summary(): LogSummary {
    return {
      name: this.source.name,
      ...this.#found,
      warning: this.source.change ?? this.#damage,
      notes: this.#reader.notes,
    };
  }

  /** The reason why the results cannot be right, or `undefined`. */
  get refusal(): string | undefined {
    return this.#reader.refusal;
  }

  /**
   * Returns the time of the first request of `requests`, or `undefined` without one, or if the source can be read only once. The first line
   * of a file need not be its earliest: many servers write a line when the response ends.
   */
  async firstTime(): Promise<number | undefined> {
    if (!this.source.rereadable) return undefined;
    let first = Infinity;
    let read = 0;
    for await (const batch of this.again().#batches()) {
      for (const { time } of batch) {
        first = Math.min(first, time);
        // From here on, a line with an earlier time comes too late.
        if (++read > REORDER) return first;
      }
    }
    return read > 0 ? first : undefined;
  }

  /** Counts a request whose time could not be kept among those of other files. */
  countLate(): void {
    this.#found.late += 1;
  }

  /** Its requests in order of time, in batches. */
  async *requests(): AsyncGenerator<readonly Entry[]> {
    const reorder = new Reorder();
    for await (const batch of this.#batches()) {
      const ready: Entry[] = [];
      const lateBefore = reorder.late;
      for (const entry of batch) {
        const next = reorder.push(entry);
        if (next) ready.push(next);
      }
      this.#found.late += reorder.late - lateBefore;
      yield ready;
    }
    const rest: Entry[] = [];
    for (let entry = reorder.shift(); entry; entry = reorder.shift()) rest.push(entry);
    yield rest;
  }

  /** Its requests in the order of the file. */
  async *#batches(): AsyncGenerator<readonly Entry[]> {
    for await (const text of wholeLines(this.#content())) {
      const entries: Entry[] = [];
      for (let start = 0; start < text.length;) {
        let end = text.indexOf('\n', start);
        if (end === -1) end = text.length;
        if (this.#found.lines === 0 && text.startsWith(BYTE_ORDER_MARK)) start = 1;
        this.#take(text.slice(start, text[end - 1] === '\r' ? end - 1 : end), entries);
        start = end + 1;
      }
      yield entries;
    }
    const last: Entry[] = [];
    for (const parsed of this.#reader.rest()) {
      // Its first line was counted as a part of a request.
      this.#found.joined -= 1;
      this.#count(parsed, '', last);
    }
    yield last;
  }

  #take(line: string, entries: Entry[]): void {
    this.#found.lines += 1;
    if (line.length > MAX_LINE) {
      this.#count({ problem: 'more than a million characters' }, line, entries);
      return;
    }
    const records = line === '' ? [] : recordsOf(line);
    if (records.length === 0) this.#found.skipped += 1;
    for (const record of records) this.#count(this.#reader.read(record), record, entries);
  }

  #count(parsed: Parsed, line: string, entries: Entry[]): void {
    if (parsed === 'skipped' || parsed === 'joined') {
      this.#found[parsed] += 1;
    } else if ('problem' in parsed) {
      this.#found.malformed += 1;
      if (this.#found.samples.length < MAX_SAMPLES) {
        const text = Buffer.from(line.slice(0, SAMPLE_LENGTH)).toString();
        this.#found.samples.push({ line: this.#found.lines, text, problem: parsed.problem });
      }
    } else {
      this.#found.requests += 1;
      entries.push(parsed);
    }
  }

  /** Its unpacked bytes. If a gzip file ends too early, the bytes before that count. */
  async *#content(): AsyncGenerator<Buffer> {
    const chunks = this.#counted();
    const first = await chunks.next();
    if (first.done) return;
    checkReadable(this.source.name, first.value);
    const all = before(first.value, chunks);
    const isGzip = first.value[0] === 0x1f && first.value[1] === 0x8b;
    if (!isGzip) {
      yield* all;
      return;
    }
    try {
      // An error ends the loop, too.
      const unpacked = pipeline(all, createGunzip({ chunkSize: CHUNK }), () => {});
      for await (const chunk of unpacked) yield chunk as Buffer;
    } catch (error) {
      if (!(error as NodeJS.ErrnoException).code?.startsWith('Z_')) throw error;
      this.#damage = `the gzip data is damaged or ends too early (${(error as Error).message}); only the lines before that count`;
    }
  }

  async *#counted(): AsyncGenerator<Buffer> {
    for await (const bytes of this.source.bytes()) {
      this.bytesRead += bytes.length;
      if (bytes.length > 0) yield bytes;
    }
  }
}

async function* before<T>(first: T, rest: AsyncIterable<T>): AsyncGenerator<T> {
  yield first;
  yield* rest;
}

/** Texts of whole lines. Neither a character nor a line is cut in two. Of a line that is too long, only the beginning is kept. */
async function* wholeLines(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let begun: Buffer[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    const end = chunk.lastIndexOf(NEWLINE) + 1;
    if (end > 0) {
      yield Buffer.concat([...begun, chunk.subarray(0, end)]).toString();
      begun = [];
      length = 0;
    }
    if (length <= 2 * MAX_LINE) {
      begun.push(chunk.subarray(end));
      length += chunk.length - end;
    }
  }
  if (length > 0) yield Buffer.concat(begun).toString();
}

/** The number of requests that are held back for others that were logged late. */
export const REORDER = 50_000;

/**
 * Puts the lines of one log in order of time. Many servers write a line when the response ends, but with the time of the request. A line
 * that comes more than `capacity` lines late gets the time of the line before it.
 */
export class Reorder {
  readonly #capacity: number;
  /** The waiting requests in order of time, from `#head` on. */
  #waiting: Entry[] = [];
  #head = 0;
  #now = 0;
  /** The lines that came too late for their place. */
  late = 0;

  constructor(capacity: number = REORDER) {
    this.#capacity = capacity;
  }

  /** Adds a request. If the buffer is full, returns the earliest one. */
  push(entry: Entry): Entry | undefined {
    const waiting = this.#waiting;
    if (entry.time < this.#now) {
      entry.time = this.#now;
      this.late += 1;
    }
    const last = waiting[waiting.length - 1];
    if (last === undefined || entry.time >= last.time) waiting.push(entry);
    else waiting.splice(this.#placeOf(entry.time), 0, entry);
    return waiting.length - this.#head > this.#capacity ? this.shift() : undefined;
  }

  /** The earliest of the waiting requests. */
  shift(): Entry | undefined {
    const entry = this.#waiting[this.#head];
    if (entry === undefined) return undefined;
    this.#now = entry.time;
    this.#head += 1;
    if (this.#head > this.#capacity) {
      this.#waiting = this.#waiting.slice(this.#head);
      this.#head = 0;
    }
    return entry;
  }

  /** The place behind all requests of the same time. */
  #placeOf(time: number): number {
    return firstWhere(this.#head, this.#waiting.length, (i) => this.#waiting[i]!.time > time);
  }
}
