// Writes an access log in the Combined Log Format to try `headgate replay` and `suggest` on. Every run writes the same log: `node
// scripts/access-log.mjs 1000000 > access.log`. Most clients open a page now and then, some poll, a robot hammers at /login.
import { once } from 'node:events';

const lines = Number(process.argv[2] ?? 100_000);
if (!Number.isInteger(lines) || lines < 1) {
  console.error('Pass the number of lines: node scripts/access-log.mjs 1000000 > access.log');
  process.exit(2);
}
process.stdout.on('error', () => process.exit());

const START = Date.UTC(2026, 9, 5, 6);
const PATHS = ['/', '/api/items', '/api/items/7', '/api/search?q=shoes', '/cart', '/assets/app.js'];
const AGENT =
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36';

let state = 1;
/** A number from 0 to 1, exclusive, the same at every run (mulberry32). */
function random() {
  state = (state + 0x6d2b79f5) | 0;
  let x = Math.imul(state ^ (state >>> 15), 1 | state);
  x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
  return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
}

/** @param {number} n */
const below = (n) => Math.floor(n * random());

/** @param {number} time */
function clf(time) {
  const [, day, month, year, clock] = new Date(time).toUTCString().split(' ');
  return `${day}/${month}/${year}:${clock} +0000`;
}

/** @param {number} n */
function address(n) {
  if (n % 9 > 0) return `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`;
  return `2001:db8:${(n >> 8).toString(16)}:${(n & 255).toString(16)}00::1`;
}

const clients = Math.max(20, Math.round(lines / 50));
let time = START;
let written = 0;
let out = '';

/**
 * @param {number} client
 * @param {string} request
 * @param {number} at
 */
function write(client, request, at) {
  const rest = `HTTP/1.1" 200 ${below(5000)} "https://shop.example/" "${AGENT}"`;
  out += `${address(client)} - - [${clf(at)}] "${request} ${rest}\n`;
  written += 1;
}

while (written < lines) {
  // There is more traffic by day than by night. Every six hours a robot sends requests for 20 minutes.
  const hour = (time - START) / 3_600_000;
  const robot = hour % 6 > 1 && hour % 6 < 1.33 && random() < 0.6;
  time += (-Math.log(1 - random()) * 350) / (1 + Math.sin((hour * Math.PI) / 12) / 2) / (robot ? 2 : 1);
  const client = below(clients * random() ** 2) + 2;
  if (robot) write(1, 'POST /login', time);
  else if (client % 50 === 0) write(client, 'GET /api/poll', time);
  // A page with its resources. Slow responses are written late, but with the time of the request.
  else
    for (let i = below(9); i >= 0 && written < lines; i--)
      write(client, `GET ${PATHS[below(PATHS.length)]}`, time - below(3000));
  if (out.length > 1e6) {
    if (!process.stdout.write(out)) await once(process.stdout, 'drain');
    out = '';
  }
}
process.stdout.write(out);
