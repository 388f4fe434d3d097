import type { Commands, Server } from '../clients/commands.js';
import { performance, setTimeout } from '../../../common/real-time.js';
import { withoutSecrets } from '../../../common/shown.js';
import { within } from '../../../common/within.js';
import { assemble } from '../scripts.js';
import { fieldOf, isUnknownCommand, lacksLua, NO_LUA, tooOld, versionOf } from '../server-version.js';
import { findEffectless, type LiveLimiter } from '../../../features/overrides/redis-check.js';
import { plainWords } from '../../store-error.js';
import { NO_DEADLINE } from './best-effort.js';
import { memoryFound, memoryOf } from './memory.js';
import type { Finding } from './finding.js';
import { needs, possibleUses, PROBES, type Use } from './script-commands.js';

const ANSWER_TIMEOUT_MS = 5000;

/** The part of the time limit over which the growth of the memory is measured. */
const GROWTH_SHARE = 0.4;

/** The time from which an answer is reported as late, ms. Limiters do not wait that long by default. */
const LATE_MS = 1000;

const MIN_CLOCK_DIFFERENCE_MS = 1000;

/** The attempts to find a key that a server of a cluster has. */
const MAX_KEY_ATTEMPTS = 10_000;

/** The keys by which a cluster is found. One server rarely has all of them. */
const KEYS_TO_FIND_CLUSTER = 64;

const MAX_NAMES = 10;

interface Extent {
  /** The limiters with the overrides to check. */
  readonly live?: readonly LiveLimiter[];
  /** The purposes, with the commands to try. @default every possible purpose of limiters */
  readonly uses?: readonly Use[];
  /** The time limit for an answer, ms. */
  readonly timeout?: number;
}

/** The time limit for each answer, and the time of the slowest one. */
class Answers {
  readonly timeout: number;
  slowestMs = 0;

  constructor(timeout: number) {
    this.timeout = timeout;
  }

  async inTime<T>(promise: Promise<T>): Promise<T> {
    const asked = performance.now();
    const answer = await within(this.timeout, promise, () => {
      throw new Error(`it has not answered for ${this.timeout} ms.`);
    });
    this.slowestMs = Math.max(this.slowestMs, performance.now() - asked);
    return answer;
  }
}

/** The parts that the check of each server shares. */
interface Check {
  readonly commands: Commands;
  readonly prefix: string;
  readonly needed: ReadonlyMap<string, readonly Use[]>;
  readonly answers: Answers;
}

/** Checks whether limits can be enforced on the servers of a client. Returns the findings, and never throws. */
export async function checkServers(
  commands: Commands,
  prefix: string,
  { live = [], uses = possibleUses(), timeout = ANSWER_TIMEOUT_MS }: Extent = {},
): Promise<Finding[]> {
  const answers = new Answers(timeout);
  const findings: Finding[] = commands.hazards().map((hazard) => ({ ...hazard, code: 'client' }));
  if (findings.length === 0) findings.push(ok('client', 'No option of the client puts limits at risk.'));
  try {
    const servers = await answers.inTime(connected(commands));
    const check = { commands, prefix, needed: needs(uses), answers };
    const lists = await Promise.all(servers.map((server) => checkServer(check, server)));
    for (const [i, list] of lists.entries()) {
      const where = servers.length > 1 ? `${servers[i]!.name}: ` : '';
      for (const found of list) findings.push({ ...found, message: where + found.message });
    }
    if (live.length > 0) findings.push(await findEffectless(senderTo(commands, answers), prefix, live));
    if (findings.every(({ code }) => code !== 'connection')) findings.push(latencyFound(answers.slowestMs));
  } catch (error) {
    findings.push(unreachable(error));
  }
  return findings;
}

async function connected(commands: Commands): Promise<readonly Server[]> {
  if (!commands.ready()) await commands.connected();
  return commands.servers();
}

async function checkServer({ commands, prefix, needed, answers }: Check, server: Server): Promise<Finding[]> {
  const findings: Finding[] = [];
  try {
    const info = (section: string): Promise<string> => server.send(['INFO', section]).then(String, () => '');
    const [about, memory] = await answers.inTime(Promise.all([info('server'), info('memory')]));
    findings.push(versionFound(about), evictionFound(memory));
    if (
      !commands.cluster &&
      fieldOf(about, 'redis_mode') === 'cluster' &&
      (await answers.inTime(hasMoved(prefix, server)))
    )
      return [...findings, WRONG_CLIENT];
    const key = keyOn(commands, prefix, server);
    // A server without cluster slots has no keys of Headgate.
    if (key === undefined) return findings;
    const asked = Date.now();
    const [now, ...failures] = await answers.inTime(tryCommands(commands, key, [...needed.keys()]));
    findings.push(...commandsFound(failures as string[], needed), clockFound(Number(now), asked, Date.now()));
    findings.push(...(await growthFound(info, answers)));
  } catch (error) {
    findings.push(unreachable(error));
  }
  return findings;
}

/** Whether other servers have some keys. A cluster behind one address has all keys. */
async function hasMoved(prefix: string, { send }: Server): Promise<boolean> {
  const keys = Array.from({ length: KEYS_TO_FIND_CLUSTER }, (_, i) => `${prefix}:{headgate-check:${i}}`);
  const isMoved = (key: string): Promise<boolean> =>
    send(['GET', key]).then(
      () => false,
      (error: Error) => error.message.startsWith('MOVED '),
    );
  return (await Promise.all(keys.map(isMoved))).includes(true);
}

const WRONG_CLIENT: Finding = {
  level: 'error',
  code: 'client',
  message:
    'The client connects to one server, but the server is part of a cluster, so decisions about the keys of other servers fail. Pass new ' +
    'Cluster([...]) of ioredis or iovalkey, or createCluster({ rootNodes }) of redis.',
};

/** The finding about the memory of a server with `maxmemory`. A server that is full already refuses commands, which is another finding. */
async function growthFound(info: (section: string) => Promise<string>, answers: Answers): Promise<Finding[]> {
  const first = memoryOf(await answers.inTime(info('memory')), Date.now());
  if (!first?.maxBytes) return [];
  await new Promise<void>((resolve) => void setTimeout(resolve, GROWTH_SHARE * answers.timeout));
  const last = memoryOf(await answers.inTime(info('memory')), Date.now());
  return last?.maxBytes && last.usedBytes < last.maxBytes ? [memoryFound(first, last)] : [];
}

/** A key of Headgate that a server has. */
function keyOn(commands: Commands, prefix: string, { name }: Server): string | undefined {
  for (let i = 0; i < MAX_KEY_ATTEMPTS; i++) {
    const key = `${prefix}:{headgate-check:${Math.random()}}`;
    if (!commands.cluster || commands.serverOf(key) === name) return key;
  }
  return undefined;
}

/** The reply of `check.lua`. @param names the commands to try */
async function tryCommands(
  commands: Commands,
  key: string,
  names: readonly string[],
): Promise<readonly unknown[]> {
  const { source, sha } = assemble('check');
  const tries = names.flatMap((name) => {
    const args = PROBES.get(name)!;
    return [name, String(args.length), ...args];
  });
  const run = (command: 'eval' | 'evalsha', text: string): Promise<unknown> =>
    new Promise((resolve, reject) => {
      commands.run(command, text, {
        keys: [key],
        args: ['', ...tries],
        deadline: () => NO_DEADLINE,
        done: (error, reply) => (error ? reject(error) : resolve(reply)),
      });
    });
  await run('eval', source);
  return (await run('evalsha', sha)) as unknown[];
}

const NO_INFO = 'the client may not run INFO, or the server does not report it.';

function versionFound(info: string): Finding {
  const version = versionOf(info);
  if (!version) return warning('version', `The version is unknown: ${NO_INFO}`);
  if (version.tooOld) return { level: 'error', code: 'version', message: tooOld(version) };
  return ok('version', `${version.text}.`);
}

function evictionFound(info: string): Finding {
  const policy = fieldOf(info, 'maxmemory_policy');
  if (policy === undefined) return warning('eviction', `The eviction policy is unknown: ${NO_INFO}`);
  if (policy === 'noeviction') return ok('eviction', 'Nothing is evicted (maxmemory-policy noeviction).');
  const limit = Number(fieldOf(info, 'maxmemory'));
  if (limit === 0)
    return ok('eviction', `Nothing is evicted, because no maxmemory is set. The policy would be ${policy}.`);
  return warning(
    'eviction',
    `maxmemory-policy is ${policy}: a full server deletes counts and bans. Every key of Headgate expires, so volatile-* ` +
      'policies delete them, too. Use noeviction, or a separate server for Headgate.',
  );
}

/**
 * @param failures alternating: a command's name, the server's error
 * @param needed the uses of each command
 */
function commandsFound(failures: readonly string[], needed: ReadonlyMap<string, readonly Use[]>): Finding[] {
  const found: Finding[] = [];
  for (let i = 0; i < failures.length; i += 2) {
    const [name, given] = failures.slice(i, i + 2) as [string, string];
    const words = plainWords(given);
    const essential = needed.get(name)!.filter(({ isEssential }) => isEssential);
    const level = essential.length > 0 ? 'error' : 'warning';
    const what = isUnknownCommand(new Error(words)) ? 'The server does not have' : 'The server does not run';
    const users = namesOf(essential.length > 0 ? essential : needed.get(name)!);
    found.push({ level, code: 'commands', message: `${what} ${name}, needed by ${users}: ${words}` });
  }
  return found.length > 0 ? found : [ok('commands', 'Every command of the scripts can be run.')];
}

/** The names of the first uses, and the count of the others. */
function namesOf(uses: readonly Use[]): string {
  const names = uses.slice(0, MAX_NAMES).map(({ name }) => name);
  if (uses.length > names.length) names.push(`${uses.length - names.length} more`);
  return names.join(', ');
}

/** @param asked the time of the question for the server's time `now`, and `answered` the time of the answer, by the clock of this process, ms */
function clockFound(now: number, asked: number, answered: number): Finding {
  const ahead = now > answered ? now - answered : Math.min(0, now - asked);
  if (Math.abs(ahead) < MIN_CLOCK_DIFFERENCE_MS)
    return ok('clock', "The server's clock agrees with the clock of this process.");
  const seconds = (Math.abs(ahead) / 1000).toFixed(1);
  return warning(
    'clock',
    `The server's clock is ${seconds} s ${ahead > 0 ? 'ahead of' : 'behind'} this process' clock. Limits follow the ` +
      "server's clock. Times in logs, and windows while a local store decides, differ by as much. Synchronise the clocks.",
  );
}

function latencyFound(slowestMs: number): Finding {
  const took = `The slowest answer took ${Math.ceil(slowestMs)} ms`;
  if (slowestMs < LATE_MS) return ok('latency', `${took}.`);
  const effect = 'and limiters do not wait that long: onStoreError decided meanwhile';
  return warning('latency', `${took}, ${effect}. Find out what occupied the server or the network.`);
}

/** Sends a command about a key to the server that has it. */
function senderTo(commands: Commands, answers: Answers) {
  return (command: string, key: string, ...args: string[]): Promise<unknown> => {
    const servers = commands.servers();
    const server = servers.find(({ name }) => name === commands.serverOf(key)) ?? servers[0]!;
    return answers.inTime(server.send([command, key, ...args]));
  };
}

function unreachable(error: unknown): Finding {
  const words = withoutSecrets(error instanceof Error ? error.message : String(error));
  // Errors of the server begin with a word in capital letters.
  if (/^[A-Z]+ /.test(words)) {
    const message = lacksLua(new Error(words))
      ? NO_LUA
      : `The server does not run scripts: ${plainWords(words)}`;
    return { level: 'error', code: 'commands', message };
  }
  return { level: 'error', code: 'connection', message: `The server cannot be reached: ${words}` };
}

const ok = (code: Finding['code'], message: string): Finding => ({ level: 'ok', code, message });

const warning = (code: Finding['code'], message: string): Finding => ({ level: 'warning', code, message });
