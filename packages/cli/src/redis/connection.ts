import { FORBIDDEN } from '../optional.js';
import { CliError, failure, usageError } from '../errors.js';
import { PROBE_SHARE, showAddress, speaksPlainly, within, type Target } from './address.js';
import { loadOpener, type Connection } from './packages.js';

export interface Connected extends Connection {
  /** The time from the beginning until the server had answered, ms. */
  readonly connectMs: number;
}

/**
 * Connects with the first client package that is installed. Takes no longer than the time limit for an answer.
 *
 * @throws CliError `UNREACHABLE`, `FAILED`, `USAGE` with the problem of the server
 */
export async function connect(wanted: Target, cwd: string): Promise<Connected> {
  const { address, cluster, sentinel } = wanted;
  const { host, port } = address;
  if (cluster && address.database !== 0) {
    throw usageError('--redis: a cluster has only database 0. Pass the URL without a number at its end.');
  }
  if (cluster && sentinel !== undefined) {
    throw usageError(
      '--sentinel and --cluster: sentinels watch servers without a cluster. Pass one of them.',
    );
  }
  const open = loadOpener(cwd, sentinel !== undefined);
  const began = performance.now();
  const deadlineAt = (share: number): Target => ({ ...wanted, deadline: began + share * wanted.timeout });
  const target = deadlineAt(1);
  const answered = (to: Connection): Connected => ({ ...to, connectMs: performance.now() - began });
  const first = address.tls ? deadlineAt(1 - PROBE_SHARE) : target;
  const server = await open(first, false).catch(async (error: unknown) => {
    if (!address.tls || !(await speaksPlainly(wanted))) throw error;
    throw usageError(
      `--redis: rediss:// is for TLS, and port ${port} of ${host} uses Redis without TLS. Pass redis://.`,
    );
  });
  try {
    const enabled = await within(target, isClusterNode(server));
    if (!cluster && enabled === true) throw needsCluster();
    if (cluster && enabled === false) {
      throw usageError('--cluster: this server is not a node of a cluster. Omit --cluster.');
    }
    if (!cluster) return answered(server);
  } catch (error) {
    server.close();
    throw error;
  }
  // One server is asked first, because its errors are clearer than the errors of a cluster without a responsive server.
  server.close();
  return answered(await open(target, true));
}

/** Whether a server is a node of a cluster. Such a node has, and accepts, only a part of the keys. `undefined` if the server does not reply. */
async function isClusterNode(connection: Connection): Promise<boolean | undefined> {
  try {
    const info = String(await connection.call('INFO', 'cluster'));
    const [, enabled] = /cluster_enabled:([01])/.exec(info) ?? [];
    return enabled === undefined ? undefined : enabled === '1';
  } catch (error) {
    // Some users lack the permission, and some proxies do not answer.
    if (/NOPERM|unknown command/i.test(String(error))) return undefined;
    throw error;
  }
}

function needsCluster(): CliError {
  return usageError('--redis: this server is a node of a cluster. Add --cluster.');
}

const NETWORK =
  /ECONN|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT|EPIPE|Connection is closed|Socket closed|SocketClosed|TLS|certificate|All sentinels are unreachable|startup nodes|refresh slots|Connection timeout/i;

/** Fixes for errors of a server or of its client. */
const REMEDIES: readonly [RegExp, string][] = [
  [/^NOAUTH|NOAUTH Auth/, 'The server requires a password: redis://:password@host:port, or user:password@.'],
  [/WRONGPASS|invalid password|invalid username/i, 'The server refuses the user or the password.'],
  [FORBIDDEN, "The user lacks a permission: see which commands and keys the server's ACL gives it."],
  [/ERR Client sent AUTH|AUTH .*without any password/i, 'The server has no password: omit it from the URL.'],
  [/DB index|invalid DB/i, 'The server has no database of that number.'],
  [/READONLY/, 'The server is a replica: pass the URL of its primary.'],
  [
    /self-signed|unable to (get|verify)/,
    'Set NODE_EXTRA_CA_CERTS to a file with the certificate of its authority.',
  ],
  [/Unknown Redis command called from (Lua )?script/i, 'Headgate needs Redis 6.0 or later, or Valkey.'],
];

/** Adds a fix to errors of a client or a server. */
export function explain(error: unknown, { address }: Target): unknown {
  if (!(error instanceof Error) || error instanceof CliError) return error;
  const text = textsOf(error).join(': ');
  if (/^MOVED|^CROSSSLOT/.test(error.message)) return needsCluster();
  const remedy = REMEDIES.find(([symptom]) => symptom.test(text))?.[1];
  const said = (message: string): string => `${showAddress(address)} ${message.replace(/\.$/, '')}`;
  if (remedy !== undefined) return failure(`${said(`answers: ${error.message}`)}. ${remedy}`, error);
  if (!NETWORK.test(text)) return error;
  const question = 'Is the URL right (rediss:// for TLS), and the server up?';
  return new CliError('UNREACHABLE', `${said(`cannot be reached: ${text}`)}. ${question}`, error);
}

function textsOf(error: unknown): string[] {
  const texts = new Set<string>();
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    // The client tried several addresses.
    const tried = at instanceof AggregateError ? at.errors.map(String) : [at.message];
    for (const text of tried) if (text !== '') texts.add(text.replace(/^Error: /, ''));
  }
  return [...texts];
}
