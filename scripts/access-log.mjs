// Writes an access log in the Combined Log Format to try `headgate replay` and `suggest` on, always the same:
// `node scripts/access-log.mjs 1000000 > access.log`. Most clients are quiet, some are busy, a few are robots that hammer.
import { once } from 'node:events';

const lines = Number(process.argv[2] ?? 100_000);
if (!Number.isInteger(lines) || lines < 1) {
  console.error('Write how many lines: node scripts/access-log.mjs 1000000 > access.log');
  process.exit(2);
}
process.stdout.on('error', () => process.exit());

const START = Date.UTC(2026, 9, 5, 6);
const PATHS = ['/', '/api/items', '/api/items/7', '/api/search?q=shoes', '/login', '/cart', '/assets/app.js'];
const AGENT =
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36';
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

let state = 1;
/** A number from 0 to 1, exclusive: the same at every run (mulberry32). */
function random() {
  state = (state + 0x6d2b79f5) | 0;
  let x = Math.imul(state ^ (state >>> 15), 1 | state);
  x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
  return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
}

/** @param {number} n */
const two = (n) => String(n).padStart(2, '0');

/** @param {number} time */
function clf(time) {
  const d = new Date(time);
  const day = `${two(d.getUTCDate())}/${MONTHS[d.getUTCMonth()]}/${d.getUTCFullYear()}`;
  return `${day}:${two(d.getUTCHours())}:${two(d.getUTCMinutes())}:${two(d.getUTCSeconds())} +0000`;
}

const clients = Math.max(20, Math.round(lines / 50));
/** @param {number} n */
const address = (n) =>
  n % 9 === 0
    ? `2001:db8:${(n >> 8).toString(16)}:${(n & 255).toString(16)}00::1`
    : `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`;

let time = START;
let out = '';
for (let i = 0; i < lines; i++) {
  // More by day than by night; 20 minutes in which a robot hammers.
  const hour = (time - START) / 3_600_000;
  const robot = hour % 6 > 3 && hour % 6 < 3.33 && random() < 0.3;
  time += (-Math.log(1 - random()) * 85) / (1 + Math.sin((hour * Math.PI) / 12) / 2) / (robot ? 2 : 1);
  const client = robot ? 1 : Math.floor(clients * random() ** 3) + 2;
  const path = robot ? '/login' : PATHS[Math.floor(PATHS.length * random())];
  // A response that took its time is written late.
  const late = random() < 0.01 ? 3000 * random() : 0;
  out += `${address(client)} - - [${clf(time - late)}] "${robot ? 'POST' : 'GET'} ${path} HTTP/1.1" 200 ${Math.floor(5000 * random())} "-" "${AGENT}"\n`;
  if (out.length > 1e6) {
    if (!process.stdout.write(out)) await once(process.stdout, 'drain');
    out = '';
  }
}
process.stdout.write(out);
