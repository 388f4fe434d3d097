import { resolve } from 'node:path';
import { SingleBar } from 'cli-progress';
import { failure, usageError } from '../errors.js';
import { count } from '../format.js';
import type { Io } from '../io.js';
import { FORMATS } from './formats.js';
import type { Entry, LineReader } from './line.js';
import { LogFile, type LogSummary } from './log-file.js';
import { openSource, streamSource, type Source } from './source.js';

const STDIN = '-';

export class Logs {
  readonly #files: readonly LogFile[];

  constructor(files: readonly LogFile[]) {
    this.#files = files;
  }

  /** The same logs, to be read once more. Undefined if one of them is a stream. */
  again(): Logs | undefined {
    if (!this.#files.every(({ source }) => source.rereadable)) return undefined;
    return new Logs(this.#files.map((file) => file.again()));
  }

  /** Whether another reading found other bytes, or a log ended too early. */
  get changed(): boolean {
    return this.#files.some(({ source }) => source.change !== undefined);
  }

  get bytesRead(): number {
    return this.#files.reduce((sum, { bytesRead }) => sum + bytesRead, 0);
  }

  get summaries(): readonly LogSummary[] {
    return this.#files.map(({ summary }) => summary);
  }

  /** The number of bytes to read, for the progress, or 0 if it is unknown. */
  get size(): number {
    return this.#files.reduce((sum, { source: { size } }) => sum + (size ?? NaN), 0) || 0;
  }

  /**
   * All requests in order of time. Files that follow each other (rotated ones) are open one at a time, whatever their order on the command
   * line.
   */
  async *requests(): AsyncGenerator<readonly Entry[]> {
    if (this.#files.length === 1) yield* this.#files[0]!.requests();
    else yield* merge(this.#files);
  }

  /** @throws CliError `FAILED` if there is nothing to replay, or if the results cannot be right; the message names the fix */
  checkFound(): void {
    for (const { refusal, source } of this.#files)
      if (refusal !== undefined) throw failure(`${source.name}: ${refusal}`);
    const all = this.summaries;
    if (all.some(({ requests }) => requests > 0)) return;
    const names = all.map(({ name }) => name).join(', ');
    const lines = all.reduce((sum, each) => sum + each.lines, 0);
    if (lines === 0) throw failure(`${names}: the log is empty.`);
    const [sample] = all.flatMap(({ samples }) => samples);
    throw failure(
      sample
        ? `${names}: none of ${lines} lines could be read as a request. Line ${sample.line}: ${sample.problem}: ` +
            `${JSON.stringify(sample.text)}. Logs may be in ${FORMATS}.`
        : `${names}: none of ${lines} lines is a request with a key. Check --match, --key and --key-field.`,
    );
  }
}

/**
 * Opens logs for as long as `use` reads them.
 *
 * @throws CliError `USAGE`: a file is given twice; `FAILED`: one cannot be read
 */
export async function withLogs(
  names: readonly string[],
  { stdin, cwd }: Pick<Io, 'stdin' | 'cwd'>,
  parser: () => LineReader,
  use: (logs: Logs) => Promise<void>,
): Promise<void> {
  const sources: Source[] = [];
  try {
    for (const name of names) {
      const source =
        name === STDIN ? streamSource('standard input', stdin) : await openSource(name, resolve(cwd, name));
      const same = sources.find(({ identity }) => identity === source.identity);
      sources.push(source);
      if (same) {
        const again = same.name === source.name ? 'given twice' : `the same file as ${same.name}`;
        throw usageError(`${source.name} is ${again}, so its requests would count twice. Pass it once.`);
      }
    }
    await use(new Logs(sources.map((source) => new LogFile(source, parser))));
  } finally {
    await Promise.all(sources.map((source) => source.close()));
  }
}

/** A log, with the requests that were read but not yet used. */
interface Head {
  readonly file: LogFile;
  readonly batches: AsyncGenerator<readonly Entry[]>;
  batch: readonly Entry[];
  at: number;
  /** The time of the next request, or the time at which the file is opened, or -Infinity if a batch must be read first. */
  time: number;
}

const BATCH = 4096;

async function* merge(files: readonly LogFile[]): AsyncGenerator<readonly Entry[]> {
  const heads = await Promise.all(
    files.map(async (file): Promise<Head> => {
      const time = (await file.firstTime()) ?? -Infinity;
      return { file, batches: file.requests(), batch: [], at: 0, time };
    }),
  );
  heads.sort((a, b) => a.time - b.time);
  let out: Entry[] = [];
  let now = 0;
  try {
    while (heads.length > 0) {
      const head = heads.reduce((a, b) => (b.time < a.time ? b : a));
      const entry = head.batch[head.at++];
      if (entry) {
        // Only a file that changed since its first reading has such a time.
        if (entry.time < now) head.file.countLate();
        entry.time = now = Math.max(now, entry.time);
        if (out.push(entry) === BATCH) {
          yield out;
          out = [];
        }
      } else {
        const next = await head.batches.next();
        if (next.done) heads.splice(heads.indexOf(head), 1);
        else Object.assign(head, { batch: next.value, at: 0 });
      }
      head.time = head.batch[head.at]?.time ?? -Infinity;
    }
    yield out;
  } finally {
    for (const { batches } of heads) await batches.return(undefined);
  }
}

/** Goes through all requests. Shows a progress bar on a terminal. */
export async function forEachRequest(
  logs: Logs,
  io: Io,
  title: string,
  take: (entry: Entry) => void,
): Promise<void> {
  const bar = startBar(logs, io, title);
  let requests = 0;
  try {
    for await (const batch of logs.requests()) {
      for (const entry of batch) take(entry);
      requests += batch.length;
      bar?.update(logs.bytesRead, { requests: count(requests) });
    }
  } finally {
    bar?.stop();
  }
}

function startBar(logs: Logs, io: Io, title: string): SingleBar | undefined {
  if (!io.stderr.isTTY) return undefined;
  const { size } = logs;
  const known = size > 0;
  const bar = new SingleBar({
    format: `${title}  ${known ? '{bar} {percentage} %  ' : ''}{requests} requests  {duration_formatted}`,
    stream: io.stderr,
    barCompleteChar: '█',
    barIncompleteChar: '░',
    barsize: 30,
    clearOnComplete: true,
    gracefulExit: false,
    // Ctrl-C ends the process at once, so no terminal setting may need to be restored.
    linewrap: true,
    hideCursor: false,
  });
  bar.start(known ? size : 1, 0, { requests: '0' });
  return bar;
}
