/** The prefixes that containers, syslog and platforms put before the lines of a program. */

/** A line of a program, and the time at which its collector received it. */
export interface Unwrapped {
  readonly text: string;
  readonly time: string | undefined;
}

const TIME = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)`;

const PREFIXES = [
  // CRI, in /var/log/containers: `time stream tag text`. The tag P marks a part of a long line.
  String.raw`(?<time>${TIME}) (?:stdout|stderr) (?<tag>[FP])(?::\S*)? `,
  // Heroku: `time source[dyno]: text`.
  String.raw`(?<time>${TIME}) (?<source>heroku|app)\[(?<process>[\w.-]+)\]: `,
  // Fly.io: `time app[machine] region [level]text`. Its page shows times without a zone, which are not read.
  String.raw`(?:(?<time>${TIME})|[\dT:.-]+) app\[\w+\] [a-z]{3} \[\w+\] ?`,
  // RFC 5424, with the length before it on TCP. Heroku's drains leave out the structured data.
  String.raw`(?:\d+ )?<\d{1,3}>1 (?:(?<time>${TIME})|-) \S+ (?<source>\S+) (?<process>\S+) \S+ (?:- ?|(?:\[(?:[^\]\\]|\\.)*\])+ ?)?\ufeff?`,
  // RFC 3164 and rsyslog's file format: `time host program[pid]: text`.
  String.raw`(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|${TIME}) \S+ [\w./-]+(?:\[\d+\])?: `,
  // Docker Compose: `service-1  | text`.
  String.raw`[\w.-]+ +\| `,
].map((prefix) => new RegExp(`^${prefix}(?<text>.*)$`, 's'));

/** `kubectl logs --timestamps`, `docker logs -t`: the time before a line of JSON or of logfmt. */
const STAMPED = new RegExp(String.raw`^(${TIME}) (\{.*|\w+=.*)$`, 's');

/** The longest line that is put together from several, in characters. */
const MAX_JOINED = 2 ** 20;

export class Unwrapper {
  #begun = '';
  #hasRouter = false;

  /**
   * Returns `undefined` for a part of a line, which comes with the last part, and for the lines of Heroku's programs beside those of its
   * router, which log the same requests.
   */
  read(line: string): Unwrapped | undefined {
    if (line.startsWith('{')) {
      const docker = line.startsWith('{"log":"') ? dockerLine(line) : undefined;
      return docker ? this.#whole(docker.text, docker.isPart, docker.time) : { text: line, time: undefined };
    }
    for (const prefix of PREFIXES) {
      const found = prefix.exec(line)?.groups;
      if (!found) continue;
      const { text, time, tag, source, process } = found as { text: string } & Partial<typeof found>;
      const isHeroku = source === 'heroku' || source === 'app';
      if (isHeroku && !this.#isFromRouter(source, process)) return undefined;
      return tag === undefined ? stamped(text, time) : this.#whole(text, tag === 'P', time);
    }
    return stamped(line, undefined);
  }

  /** Whether a line of Heroku counts: of its router, or of a program while there is no router. */
  #isFromRouter(source: string, process: string | undefined): boolean {
    if (source === 'app') return !this.#hasRouter;
    this.#hasRouter ||= process === 'router';
    return process === 'router';
  }

  /** Adds the earlier parts to the last one. */
  #whole(text: string, isPart: boolean, time: string | undefined): Unwrapped | undefined {
    const joined = this.#begun.length < MAX_JOINED ? this.#begun + text : this.#begun;
    this.#begun = isPart ? joined : '';
    return isPart ? undefined : stamped(joined, time);
  }
}

function stamped(text: string, time: string | undefined): Unwrapped {
  const found = STAMPED.exec(text);
  return found ? { time: found[1], text: found[2]! } : { text, time };
}

/** A line of Docker's driver json-file, which cuts lines of more than 16 KiB. */
function dockerLine(line: string): (Unwrapped & { isPart: boolean }) | undefined {
  try {
    const { log, stream, time } = JSON.parse(line) as Record<string, unknown>;
    if (typeof log !== 'string' || typeof stream !== 'string') return undefined;
    return {
      text: log.replace(/\r?\n$/, ''),
      isPart: !log.endsWith('\n'),
      time: typeof time === 'string' ? time : undefined,
    };
  } catch {
    return undefined;
  }
}

/** The records of a line. Log drains send batches as an array of JSON, and exports are one array with a record in each line. */
export function recordsOf(line: string): readonly string[] {
  if (/^\{.*\},$/s.test(line)) return [line.slice(0, -1)];
  if (!/^\[(\{.*)?$|^\]$/s.test(line)) return [line];
  if (line.length === 1) return [];
  try {
    return (JSON.parse(line) as unknown[]).map((record) => JSON.stringify(record));
  } catch {
    return [line];
  }
}
