import { SingleBar } from 'cli-progress';
import { count } from '../format.js';
import type { Io } from '../io.js';
import type { Entry } from './entry.js';
import type { Logs } from './logs.js';

/** Goes through all requests. It shows a progress bar if someone watches. */
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
