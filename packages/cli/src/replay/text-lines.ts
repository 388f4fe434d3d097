import { isIP } from 'node:net';
import { stripVTControlCharacters } from 'node:util';
import { hostName, isAddressList } from './addresses.js';
import type { Fields } from './fields.js';

/**
 * The Common Log Format, and formats that begin like it (Combined, nginx's `main`, Apache's with the virtual host first): `host ident user
 * [time] "request" status ...`. Other words may come first, and the host may also be a list of addresses.
 * With nginx's `$msec` or `$time_iso8601` between the brackets, the time has milliseconds or a zone.
 */
const COMMON =
  /^(\S.{0,4000}?) \[(\d\d\/[A-Za-z]{3}\/\d{4}:\d\d:\d\d:\d\d(?:\.\d+)? [+-]\d{4}|\d{10}\.\d{3}|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d))\] "([^"\\]*(?:\\.[^"\\]*)*)" (\d{3}|-)(?: |$)/;

/** The time in such a line. It rules out a long line of another format at once. */
const COMMON_TIME = /\[(?:\d\d\/[A-Za-z]{3}\/\d{4}:|\d{10}\.\d{3}\]|\d{4}-\d\d-\d\dT)/;

/**
 * The format of AWS' Application and Classic Load Balancers: `[type] time name client:port target:port 3 times, 2 statuses, 2 sizes
 * "request" ...`
 */
const BALANCER =
  /^(?:\w+ )?(\d{4}-\d\d-\d\dT[\d:.]+Z) \S+ (\S+):\d+ \S+ (?:-?[\d.]+ ){3}(\d{3}|-) \S+ \S+ \S+ "([^"\\]*(?:\\.[^"\\]*)*)"/;

/** Lines of other programs. The names of the groups are those of `TEXT_NAMES`. */
const LINES: readonly RegExp[] = [
  // HAProxy's httplog, with or without captured fields.
  /^(?:haproxy\[\d+\]: )?(?<client>\S+):\d+ \[(?<time>[^\]\s]+)\] \S+ \S+ [-+\d/]+ (?<status>\d{3}|-1) [^"]*"(?<request>[^"]*)"/,
  // Envoy's default, and Istio's, which has three fields more, and the client's connection last but two.
  /^\[(?<time>[\dT:.-]+Z)\] "(?<request>[^"]*)" (?<status>\d+) (?:\S+ ){1,3}(?:"[^"]*" )?\d+ \d+ \d+ \S+ "(?<client>[^"]*)"(?: "[^"]*"){4}(?: \S+ \S+ \S+ (?<peer>\S+) )?/,
  // Gin and KrakenD.
  /^\[(?:GIN|KRAKEND)[^\]]*\] (?<date>\d{4}\/\d\d\/\d\d) - (?<clock>[\d:.]+) \|\s*(?<status>\d{3})\s*\|[^|]*\|\s*(?<client>\S+)\s*\|\s*(?<method>[A-Z]+)\s+"(?<path>[^"]*)"/,
  // Ruby on Rails.
  /^(?:[A-Z], \[[^\]]*\] +[A-Z]+ -- : )?(?:\[[\w-]+\] )?Started (?<method>[A-Z]+) "(?<path>[^"]*)" for (?<client>\S+) at (?<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4})$/,
  // Squid.
  /^(?<time>\d{9,10}\.\d{3}) +\d+ (?<client>\S+) [A-Z_]+\/(?<status>\d{3}) \d+ (?<method>[A-Z]+) (?<path>\S+) (?<user>\S+) /,
  // Render's requests. Copied from its page, the words have no spaces between them, and the time is the collector's.
  /^\s*\[(?<method>[A-Z]+)\] ?(?<status>\d{3}) ?[^\s/]+?(?<path>\/\S*?) ?clientIP="(?<client>[^"]+)" requestID=/,
  // Bunny's CDN: `cache|status|ms|bytes|zone|client|referrer|url|...`.
  /^(?:HIT|MISS|-|BYPASS|EXPIRED|STALE|UPDATING)\|(?<status>\d{3})\|(?<time>\d{13})\|\d+\|\d+\|(?<client>[^|]+)\|[^|]*\|(?<path>[^|]+)\|/,
];

/** The time at which the request came. An Application Load Balancer writes this after the rule's number. */
const CREATED = /" (?:\d+|-) (\d{4}-\d\d-\d\dT[\d:.]+Z) "/;

/** Reads a line into the fields that `TEXT_NAMES` lists, or returns `undefined` if the line has none of these formats. */
export function textFields(line: string): Fields | undefined {
  const common = COMMON_TIME.test(line) ? COMMON.exec(line) : null;
  if (common) {
    const [, names, time, request, status] = common as unknown as string[];
    return {
      client: clientIn(names!),
      user: names!.slice(names!.lastIndexOf(' ') + 1),
      time,
      request,
      status,
    };
  }
  const balancer = BALANCER.exec(line);
  if (!balancer) return LINES.map((pattern) => pattern.exec(line)?.groups).find(Boolean);
  const [, done, client, status, request] = balancer;
  return { client, user: undefined, time: CREATED.exec(line)?.[1] ?? done, request, status };
}

const HOST_AND_PORT = /^(?:[\d.]+|\[[\da-f:.]+\]):\d+$/i;

/**
 * Finds the client in `client ident user`, before which other words may stand: a virtual host, a pod, a process id, the time of a syslog.
 * The client is the first address. Without an address, it is the name before the last ident, which is always `-`.
 */
function clientIn(names: string): string {
  const space = names.indexOf(' ');
  const first = space === -1 ? names : names.slice(0, space);
  if (isIP(first) !== 0) return first;
  const words = wordsIn(names);
  // Behind a virtual host such as `127.0.1.1:80`, which is not a client.
  if (HOST_AND_PORT.test(first) && words.length > 3 && isAddressList(words[1]!)) return words.at(-3)!;
  const address = words.find(isAddressList);
  if (address !== undefined) return address;
  const name = words.findLast((_, i) => i <= words.length - 3 && words[i + 1] === '-');
  // Of four or more words, any may be the client.
  return name ?? (words.length <= 3 ? words[0]! : names);
}

/** The words of a text. A list of addresses, `1.2.3.4, 10.0.0.1`, is one word. */
function wordsIn(text: string): string[] {
  const words: string[] = [];
  for (const word of text.replaceAll('"', '').split(' ')) {
    const last = words.length - 1;
    if (last >= 0 && words[last]!.endsWith(',')) words[last] += ` ${word}`;
    else words.push(word);
  }
  return words;
}

const BARE_REQUEST = /^(?:\S+ \S+ )?[A-Z]{3,7} \/\S* (?:HTTP\/[\d.]+ )?\d{3}\b/;

/** Whether a line has a request, but neither a client nor a time, as in morgan's formats `dev`, `short` and `tiny`. */
export const isBareRequest = (line: string): boolean => BARE_REQUEST.test(stripVTControlCharacters(line));

/** Whether a client is most likely another word of the line: neither an address nor the full name of a host. */
export const isOddClient = (client: string): boolean =>
  !isAddressList(client) && !/^[\w-]+(?:\.[\w-]+)+$/.test(hostName(client) ?? '');
