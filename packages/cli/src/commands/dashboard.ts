import { randomBytes, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { integer, noteOf, type CliCommand, type Options as Shared } from '../command.js';
import { failure, usageError } from '../errors.js';
import { printable } from '../format.js';
import { write, writeJson, type Io } from '../io.js';
import { withState } from '../open.js';

interface Options extends Shared {
  readonly port: number;
  readonly readOnly?: boolean;
  readonly hideKeys?: boolean;
  readonly title?: string;
}

export function register(program: CliCommand, io: Io): void {
  program
    .command('dashboard')
    .summary('the live page, served on this machine')
    .description(
      'Serves the live page of all limiters on 127.0.0.1 until Ctrl-C. Only a browser that opens the printed URL may read it. Changes are ' +
        'logged with your name.',
    )
    .argument('[url]', 'the same as --redis')
    .option('--port <n>', 'the port of the page; 0 is any free port', integer('--port', 0, 65_535), 0)
    .option('--read-only', 'offer no changes')
    .option('--hide-keys', 'show hashes in place of keys')
    .option('--title <text>', 'a label beside the name of the page, such as production')
    .option('--by <name>', 'your name for the log (env: HEADGATE_BY; default: the user of the system)')
    .serverOptions()
    .answers('a document: url, by, readOnly')
    .example('dashboard redis://127.0.0.1:6379')
    .action((url: string | undefined, options: Options) => serve(withUrl(url, options), io));
}

function withUrl(url: string | undefined, options: Options): Options {
  if (url === undefined) return options;
  if (options.redis !== undefined)
    throw usageError('--redis and the argument name a server. Pass one of them.');
  return { ...options, redis: url };
}

async function serve(options: Options, io: Io): Promise<void> {
  const { by } = noteOf(options, io);
  if (by === undefined || by === null)
    throw usageError('--by: missing. Pass your name for the log: --by ada.');
  // Loaded here, because no other command needs the page.
  const { dashboard } = await import('headgate-dashboard');
  const { readOnly = false, hideKeys = false, title } = options;
  const stopped = new Promise<void>((resolve) => io.onInterrupt?.(resolve));
  const use: Parameters<typeof withState>[2] = async (store, settings) => {
    const page = dashboard({
      ...{ store, ...settings, hideKeys },
      ...(title !== undefined && { title }),
      ...(!readOnly && { actions: () => ({ by }) }),
    });
    const token = randomBytes(24).toString('base64url');
    const server = createServer((req, res) => {
      if (admits(req, res, token)) page.node(req, res);
    });
    await listen(server, options.port);
    const { port } = server.address() as AddressInfo;
    const url = `http://127.0.0.1:${port}/?token=${token}`;
    await (io.json
      ? writeJson(io, { url, by, readOnly })
      : write(
          io,
          `${url}\nOpen this address in a browser. ${readOnly ? 'Nothing can be changed' : `Changes are logged as ${printable(by)}`}. Ctrl-C ends the page.\n`,
        ));
    await stopped;
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  };
  await withState(options, io, use, true);
}

async function listen(server: Server, port: number): Promise<void> {
  server.listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch (error) {
    throw failure(
      `--port: port ${port} cannot be used: ${(error as Error).message}. Pass another port, or 0.`,
      error,
    );
  }
}

/**
 * Whether the request comes from a browser that opened the printed URL. The first visit exchanges the token for a cookie, so that the token does
 * not stay in the address. Answers all other requests.
 */
function admits(req: IncomingMessage, res: ServerResponse, token: string): boolean {
  const { port } = req.socket.address() as AddressInfo;
  // A page of another site may have a name that leads to this machine.
  const isHere = ['127.0.0.1', 'localhost'].some((host) => req.headers.host === `${host}:${port}`);
  const cookie = `headgate-dashboard-${port}`;
  const url = new URL(req.url ?? '/', 'http://127.0.0.1');
  const given = url.searchParams.get('token');
  if (isHere && given !== null && isEqual(given, token)) {
    res.setHeader('set-cookie', `${cookie}=${token}; Path=/; HttpOnly; SameSite=Strict`);
    res.setHeader('cache-control', 'no-store');
    res.setHeader('referrer-policy', 'no-referrer');
    res.writeHead(303, { location: '/' }).end();
    return false;
  }
  const sent = (req.headers.cookie ?? '').split(/; */).find((each) => each.startsWith(`${cookie}=`));
  if (isHere && isEqual(sent?.slice(cookie.length + 1) ?? '', token)) return true;
  res.writeHead(403, { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' });
  res.end('Open the address that headgate dashboard printed. It has a token, which this request lacks.\n');
  return false;
}

function isEqual(a: string, b: string): boolean {
  const [one, other] = [Buffer.from(a), Buffer.from(b)];
  return one.length === other.length && timingSafeEqual(one, other);
}
