/** The prefixes that containers, syslog and platforms put before the lines of a program. */

/** A line of a program, and the time at which its collector received it. */
export interface Unwrapped {
  readonly text: string;
  readonly time?: string;
}

const TIME = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)`;

/** CRI, in /var/log/containers: `time stream tag text`. The tag P marks the beginning of a long line. */
const CRI = new RegExp(`^(${TIME}) (?:stdout|stderr) ([FP])(?::\\S*)? (.*)$`, 's');

/** Heroku: `time source[dyno]: text`. */
const HEROKU = new RegExp(`^(${TIME}) (heroku|app)\\[([\\w.-]+)\\]: (.*)$`, 's');

/** RFC 5424, with the length before it on TCP. Heroku's drains leave out the structured data. */
const SYSLOG = new RegExp(
  String.raw`^(?:\d+ )?<\d{1,3}>1 (${TIME}|-) \S+ (\S+) (\S+) \S+ (?:- ?|(?:\[(?:[^\]\\]|\\.)*\])+ ?)?\ufeff?(.*)$`,
  's',
);

/** RFC 3164 and rsyslog's file format: `time host program[pid]: text`. */
const OLD_SYSLOG = new RegExp(
  String.raw`^(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|${TIME}) \S+ [\w./-]+(?:\[\d+\])?: (.*)$`,
  's',
);

/** Docker Compose: `service-1  | text`. */
const COMPOSE = /^[\w.-]+ +\| (.*)$/s;

/** `kubectl logs --timestamps`, `docker logs -t`: the time before a line of JSON or of logfmt. */
const STAMPED = new RegExp(`^(${TIME}) (\\{.*|\\w+=.*)$`, 's');

/** The longest line that is put together from several, in characters. */
const MAX_JOINED = 2 ** 20;

/**
 * Makes a function that takes the prefix off a line. It returns `undefined` for a part of a line, which comes with the last part, and for
 * the lines of Heroku's programs beside those of its router, which log the same requests.
 */
export function unwrapper(): (line: string) => Unwrapped | undefined {
  let begun = '';
  let hasRouter = false;

  /** Adds the earlier parts to the last one. */
  function whole(text: string, isPart: boolean): string | undefined {
    const joined = begun.length < MAX_JOINED ? begun + text : begun;
    begun = isPart ? joined : '';
    return isPart ? undefined : joined;
  }

  function collected(text: string, isPart: boolean, time: string | undefined): Unwrapped | undefined {
    const line = whole(text, isPart);
    return line === undefined ? undefined : withoutTime({ text: line, ...(time !== undefined && { time }) });
  }

  function platform(source: string, process: string, text: string, time: string): Unwrapped | undefined {
    if (source === 'app') return hasRouter ? undefined : { text, time };
    if (process !== 'router') return undefined;
    hasRouter = true;
    return { text, time };
  }

  return (line) => {
    if (line.startsWith('{"log":"')) {
      const docker = dockerLine(line);
      return docker ? collected(docker.text, !docker.isWhole, docker.time) : { text: line };
    }
    const cri = CRI.exec(line);
    if (cri) return collected(cri[3]!, cri[2] === 'P', cri[1]);
    const heroku = HEROKU.exec(line);
    if (heroku) return platform(heroku[2]!, heroku[3]!, heroku[4]!, heroku[1]!);
    const syslog = SYSLOG.exec(line);
    if (!syslog) return withoutTime({ text: (OLD_SYSLOG.exec(line) ?? COMPOSE.exec(line))?.[1] ?? line });
    const [, time, program, process, text] = syslog as unknown as [string, string, string, string, string];
    return program === 'heroku' || program === 'app'
      ? platform(program, process, text, time)
      : { text, time };
  };
}

function withoutTime(line: Unwrapped): Unwrapped {
  const stamped = STAMPED.exec(line.text);
  return stamped ? { time: stamped[1]!, text: stamped[2]! } : line;
}

/** A line of Docker's driver json-file, which cuts lines of more than 16 KiB. */
function dockerLine(line: string): { text: string; time?: string; isWhole: boolean } | undefined {
  try {
    const { log, stream, time } = JSON.parse(line) as Record<string, unknown>;
    if (typeof log !== 'string' || typeof stream !== 'string') return undefined;
    const isWhole = log.endsWith('\n');
    return { text: log.replace(/\r?\n$/, ''), isWhole, ...(typeof time === 'string' && { time }) };
  } catch {
    return undefined;
  }
}
