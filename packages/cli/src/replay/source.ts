import { open, type FileHandle } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { crc32 } from 'node:zlib';
import { failure, usageError } from '../errors.js';
import { count } from '../format.js';

const CHUNK = 2 ** 18;
/** The number of bytes that are compared to detect an overwritten file. */
const HEAD = 4096;

export interface Source {
  readonly name: string;
  /** The number of bytes. Undefined if it is only known at the end. */
  readonly size: number | undefined;
  /** Whether another reading gives the same bytes. */
  readonly rereadable: boolean;
  /** Equal for two names of the same file. */
  readonly identity: string;
  /** All bytes from the start. */
  bytes(): AsyncGenerator<Buffer>;
  /** The change of the file during a reading, or between two readings. */
  readonly change: string | undefined;
  close(): Promise<void>;
}

/** Standard input, or another stream. It can be read once. */
export function streamSource(name: string, stream: Readable): Source {
  return {
    name,
    size: undefined,
    rereadable: false,
    identity: name,
    change: undefined,
    async *bytes() {
      try {
        for await (const chunk of stream as AsyncIterable<Buffer | string>) {
          yield typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
        }
      } catch (error) {
        throw readFailure(name, error as NodeJS.ErrnoException);
      }
    },
    close() {
      stream.destroy();
      return Promise.resolve();
    },
  };
}

/**
 * A file that is opened once. Even if it is renamed, each reading is of the same file, and of no more bytes than there were at first.
 * `change` reports fewer bytes, or other bytes than in the reading before.
 */
function fileSource(name: string, file: FileHandle, size: number, identity: string): Source {
  let known: number | undefined;
  let change: string | undefined;

  async function read(at: number): Promise<Buffer> {
    try {
      const buffer = Buffer.allocUnsafe(Math.min(CHUNK, size - at));
      const { bytesRead } = await file.read(buffer, 0, buffer.length, at);
      return buffer.subarray(0, bytesRead);
    } catch (error) {
      throw readFailure(name, error as NodeJS.ErrnoException);
    }
  }

  async function* bytes(): AsyncGenerator<Buffer> {
    let at = 0;
    let checksum = 0;
    let head: Buffer | undefined;
    while (at < size) {
      const chunk = await read(at);
      if (chunk.length === 0) {
        change ??= `the file was cut off during the reading: ${count(at)} of its ${count(size)} bytes count`;
        break;
      }
      head ??= Buffer.from(chunk.subarray(0, HEAD));
      at += chunk.length;
      checksum = crc32(chunk, checksum);
      yield chunk;
    }
    known ??= checksum;
    const same = checksum === known && (!head || head.equals((await read(0)).subarray(0, HEAD)));
    if (!same) change ??= 'the content of the file was replaced during the reading';
  }

  return {
    name,
    size,
    rereadable: true,
    identity,
    bytes,
    get change() {
      return change;
    },
    close: () => file.close(),
  };
}

/** Opens a file or a named pipe. @throws CliError `USAGE` */
export async function openSource(name: string, path: string): Promise<Source> {
  let file: FileHandle | undefined;
  try {
    file = await open(path);
    const found = await file.stat();
    if (found.isDirectory()) throw Object.assign(new Error('It is a directory.'), { code: 'EISDIR' });
    if (!found.isFile()) return streamSource(name, file.createReadStream({ highWaterMark: CHUNK }));
    return fileSource(name, file, found.size, `${found.dev}:${found.ino}`);
  } catch (error) {
    await file?.close();
    const { message } = readFailure(name, error as NodeJS.ErrnoException);
    throw usageError(message);
  }
}

/** The first bytes of contents that cannot be read as they are, and a command that converts them. */
const FOREIGN: readonly (readonly [bytes: string, name: string, command: string])[] = [
  ['28b52ffd', 'compressed by zstd', 'zstdcat'],
  ['fd377a585a00', 'compressed by xz', 'xzcat'],
  ['425a68', 'compressed by bzip2', 'bzcat'],
  ['04224d18', 'compressed by lz4', 'lz4cat'],
  ['504b0304', 'a ZIP archive', 'unzip -p'],
  ['fffe', 'in UTF-16', 'iconv -f UTF-16 -t UTF-8'],
  ['feff', 'in UTF-16', 'iconv -f UTF-16 -t UTF-8'],
];

/** @throws CliError `USAGE` if the bytes are compressed in another way than by gzip, or in UTF-16 */
export function checkReadable(name: string, first: Buffer): void {
  const start = first.subarray(0, 8).toString('hex');
  const found = FOREIGN.find(([bytes]) => start.startsWith(bytes));
  // Without a byte order mark, the first letter shows UTF-16.
  const [, kind, command] = found ?? (/^..00|^00../.test(start) ? FOREIGN.at(-1)! : []);
  if (kind === undefined) return;
  throw usageError(
    `${name} is ${kind}. Convert the file, and pass the result as standard input: ${command} ${name} | headgate replay - ...`,
  );
}

function readFailure(name: string, error: NodeJS.ErrnoException): Error {
  const because = (reason: string) => failure(`${name}: ${reason}`, error);
  switch (error.code) {
    case 'ENOENT':
      return because('no such file. Pass the path of an access log, or - for standard input.');
    case 'EISDIR':
      return because(`a directory, not a file. Pass its files: ${name.replace(/\/$/, '')}/*.`);
    case 'EACCES':
    case 'EPERM':
      return because(
        'permission denied. Read the file as another user: sudo cat ... | headgate replay - ...',
      );
    default:
      return error.code ? because(`unreadable (${error.message}).`) : error;
  }
}
