import { DOCS, HeadgateError } from '../../common/errors.js';
import { plainWords } from '../store-error.js';
import type { Commands } from './clients/commands.js';

/** The oldest Redis with every command of the scripts. Every version of Valkey has the commands. */
const FLOOR = { major: 6, minor: 0 };

export interface ServerVersion {
  /** For example `Redis 7.2.4` or `Valkey 8.0.1`. */
  readonly text: string;
  readonly tooOld: boolean;
}

/** Parses a server's version. @param info the answer to `INFO server` */
export function versionOf(info: string): ServerVersion | undefined {
  const valkey = fieldOf(info, 'valkey_version');
  if (valkey !== undefined) return { text: `Valkey ${valkey}`, tooOld: false };
  const redis = fieldOf(info, 'redis_version');
  if (redis === undefined) return undefined;
  const [major = 0, minor = 0] = redis.split('.').map(Number);
  const tooOld = major < FLOOR.major || (major === FLOOR.major && minor < FLOOR.minor);
  return { text: `Redis ${redis}`, tooOld };
}

export function fieldOf(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1];
}

export function tooOld({ text }: ServerVersion): string {
  return `${text} is too old: Headgate needs Redis ${FLOOR.major}.${FLOOR.minor} or later, or Valkey.`;
}

/** Whether a server's error means that the server does not have a command. */
export function isUnknownCommand({ message }: Error): boolean {
  return /unknown (\w+ )?command/i.test(message);
}

/** The finding about a server without Lua. Since Valkey 9.1, Lua is a module. */
export const NO_LUA = `The server has no Lua, in which the scripts are written. Load Valkey's module lua: see ${DOCS}/versions.md#valkey-without-lua`;

/** Whether a server's error means that the server has no Lua. */
export function lacksLua({ message }: Error): boolean {
  return /could not find scripting engine/i.test(message);
}

/** The error for a server without Lua or without a command. If an old version is the reason, the message names the version. */
export async function explainUnsupported(commands: Commands, cause: Error): Promise<HeadgateError> {
  const message = lacksLua(cause) ? NO_LUA : await explainUnknownCommand(commands, cause);
  return new HeadgateError('HEADGATE_STORE_ERROR', message, { cause });
}

async function explainUnknownCommand(commands: Commands, cause: Error): Promise<string> {
  const asked = commands.servers().map((server) => server.send(['INFO', 'server']).then(String, () => ''));
  const versions = await Promise.all(asked);
  const old = versions.map(versionOf).find((version) => version?.tooOld);
  if (old) return tooOld(old);
  return `The server lacks a command that the scripts use: ${plainWords(cause.message)}`;
}
