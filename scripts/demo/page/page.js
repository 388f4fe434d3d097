// The page: sends each request to every algorithm that is picked, and draws what came of it.

/** @typedef {{ framework: string, url: string, lanes: Record<string, string> }} ServerInfo */
/** @typedef {{ name: string, about: string }} RowInfo */
/** @typedef {{ sent: number, answered: number, allowed: boolean | undefined, framework: string, level: number }} Mark */

/** @type {{ where: string, servers: ServerInfo[], rows: RowInfo[] }} */
const demo = await (await fetch('/demo.json')).json();

/** How much time a timeline shows, ms. */
const SPAN = 12_000;
/** Requests so near each other are drawn above each other. */
const NEAR = 90;

/**
 * @template {Element} T
 * @param {ParentNode} parent
 * @param {string} selector
 * @param {new () => T} type
 * @returns {T}
 */
function find(parent, selector, type) {
  const element = parent.querySelector(selector);
  if (!(element instanceof type)) throw new Error(`${selector} is not there`);
  return element;
}

/** @param {string} id */
const input = (id) => find(document, `#${id}`, HTMLInputElement);

class Row {
  /** @type {Mark[]} */
  marks = [];
  #looking = false;
  admitted = 0;
  denied = 0;

  /**
   * @param {RowInfo} info
   * @param {number} index
   */
  constructor({ name, about }, index) {
    this.name = name;
    const template = find(document, '#row', HTMLTemplateElement);
    const fragment = /** @type {DocumentFragment} */ (template.content.cloneNode(true));
    this.section = find(fragment, 'section', HTMLElement);
    this.section.id = name;
    this.on = find(this.section, '.on', HTMLInputElement);
    this.meter = find(this.section, 'meter', HTMLMeterElement);
    this.canvas = find(this.section, 'canvas', HTMLCanvasElement);
    this.answer = find(this.section, '.answer', HTMLElement);
    this.meter.setAttribute('aria-label', `${name}: remaining`);
    this.canvas.setAttribute('aria-label', `${name}: what was admitted and denied in the last 12 seconds`);
    this.text('.name', name);
    this.text('.about', about);
    this.text('.key', String(index + 1));
    this.on.setAttribute('aria-keyshortcuts', String(index + 1));
    this.on.addEventListener('change', () => this.section.classList.toggle('off', !this.on.checked));
    find(document, '#rows', HTMLElement).append(fragment);
  }

  /**
   * @param {string} selector
   * @param {string} content
   */
  text(selector, content) {
    find(this.section, selector, HTMLElement).textContent = content;
  }

  clear() {
    this.marks = [];
    this.admitted = this.denied = 0;
    this.count();
    this.text('.remaining', '–');
    this.answer.textContent = '';
  }

  count() {
    this.text('.admitted', String(this.admitted));
    this.text('.denied', String(this.denied));
  }

  /**
   * @param {ServerInfo} server
   * @param {Record<string, string>} [more] of the query
   */
  async #ask(server, more = {}) {
    const ofClient = client;
    const url = `${more.hold ? server.url : (server.lanes[this.name] ?? server.url)}/${this.name}`;
    const asked = new URLSearchParams({ ...query(this.name), ...more });
    // Without a cache: for it the browser would hold equal requests until the first is answered.
    const response = await fetch(`${url}?${asked}`, { cache: 'no-store' });
    const body = await response.text();
    if (response.status === 400) throw new Error(body);
    return ofClient === client ? response : undefined;
  }

  /** @param {ServerInfo} server */
  async send(server) {
    const now = performance.now();
    this.marks = this.marks.filter(({ sent }) => now - sent < SPAN + 5_000);
    /** @type {Mark} */
    const mark = { sent: now, answered: now, allowed: undefined, framework: server.framework, level: 0 };
    this.marks.push(mark);
    const response = await this.#ask(server);
    if (!response) return;
    mark.answered = performance.now();
    mark.allowed = response.ok;
    mark.level = this.#freeLevel(mark);
    if (response.ok) this.admitted += 1;
    else this.denied += 1;
    this.count();
    const { headers } = response;
    const shown = ['ratelimit-policy', 'ratelimit', 'retry-after']
      .filter((name) => headers.has(name))
      .map((name) => `${name}: ${headers.get(name)}`);
    this.answer.textContent = [`${server.framework}: ${response.status}`, ...shown].join('\n');
    this.answer.className = `answer ${response.ok ? 'in' : 'out'}`;
    this.#left(headers);
  }

  /** Asks what remains, at no cost: it changes also while nothing is sent. */
  async look() {
    const [server] = demo.servers;
    if (this.#looking || !server) return;
    this.#looking = true;
    try {
      const response = await this.#ask(server, { cost: '0', hold: '0' });
      if (response) this.#left(response.headers);
    } finally {
      this.#looking = false;
    }
  }

  /**
   * The tightest of the policies: what could be spent now.
   * @param {Headers} headers
   */
  #left(headers) {
    const left = [...(headers.get('ratelimit') ?? '').matchAll(/;r=(\d+)/g)].map(([, r]) => Number(r));
    const quota = [...(headers.get('ratelimit-policy') ?? '').matchAll(/;q=(\d+)/g)].map(([, q]) =>
      Number(q),
    );
    if (left.length === 0) return;
    const tightest = left.indexOf(Math.min(...left));
    this.text('.remaining', String(left[tightest]));
    this.meter.max = quota[tightest] ?? 1;
    this.meter.value = left[tightest] ?? 0;
  }

  /** @param {Mark} mark */
  #freeLevel(mark) {
    const taken = this.marks
      .filter(({ allowed, sent, answered }) => {
        return allowed === mark.allowed && answered > mark.sent - NEAR && sent < mark.answered + NEAR;
      })
      .map(({ level }) => level);
    let level = 1;
    while (taken.includes(level)) level += 1;
    return level;
  }

  /**
   * Admitted above the line, denied below; a bar as long as the request took.
   * @param {number} now
   */
  draw(now) {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const ratio = devicePixelRatio;
    if (this.canvas.width !== width * ratio) this.canvas.width = width * ratio;
    if (this.canvas.height !== height * ratio) this.canvas.height = height * ratio;
    const context = this.canvas.getContext('2d');
    if (!context) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const middle = height * 0.62;
    const step = 6;
    context.fillStyle = colours.line;
    context.fillRect(0, middle, width, 1);
    const x = (/** @type {number} */ at) => width - ((now - at) / SPAN) * width;
    for (let at = now - (now % 1_000); at > now - SPAN; at -= 1_000)
      context.fillRect(x(at), middle - 2, 1, 5);
    for (const { sent, answered, allowed, framework, level } of this.marks) {
      const left = x(sent);
      const length = Math.max(4, x(allowed === undefined ? now : answered) - left);
      const levels = Math.floor((allowed === false ? height - middle : middle) / step);
      const row = Math.min(Math.max(level, 1), levels);
      const top = allowed === false ? middle - 2 + row * step : middle + 1 - row * step;
      context.fillStyle = allowed === undefined ? colours.line : allowed ? colours.in : colours.out;
      context.beginPath();
      if (framework === 'Express') context.roundRect(left, top, length, 4, 2);
      else context.rect(left, top, length, 4);
      context.fill();
    }
  }
}

const rows = demo.rows.map((info, index) => new Row(info, index));
find(document, '#where', HTMLElement).textContent =
  `${demo.servers.map(({ framework, url }) => `${framework} ${url}`).join(' and ')}, quotas ${demo.where}, shared by both. ` +
  'Marks: above the line admitted, below it denied, round by Express, square by Fastify, a tick a second.';

let colours = readColours();
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  colours = readColours();
});

function readColours() {
  // Only where it is used does light-dark() become a colour.
  const probe = document.body.appendChild(document.createElement('i'));
  const colour = (/** @type {string} */ name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const found = { in: colour('in'), out: colour('out'), line: colour('line') };
  probe.remove();
  return found;
}

/** Who is limited: each client has its own quotas. */
let client = crypto.randomUUID();

/**
 * @param {string} name
 * @returns {Record<string, string>}
 */
function query(name) {
  const own =
    name === 'concurrency'
      ? { limit: input('slots').value }
      : {
          limit: input('limit').value,
          window: find(document, '#window', HTMLSelectElement).value,
          burst: input('burst').value,
        };
  const all = Object.entries({ key: client, ...own, cost: input('cost').value });
  return Object.fromEntries(all.filter(([, value]) => value !== ''));
}

let turn = 0;
let total = 0;

/** Requests that are not answered yet; with so many, no more are sent: the machine is busy. */
let waiting = 0;
const MOST_WAITING = 200;

/** @param {Promise<void>} asked */
function watch(asked) {
  waiting += 1;
  asked
    .then(
      () => problem(''),
      (error) => problem(error),
    )
    .finally(() => (waiting -= 1));
}

function send() {
  if (waiting > MOST_WAITING) return;
  const to = find(document, 'input[name=to]:checked', HTMLInputElement).value;
  const server =
    to === 'both'
      ? demo.servers[turn++ % demo.servers.length]
      : demo.servers.find(({ framework }) => framework === to);
  if (!server) return;
  total += 1;
  wake();
  for (const row of rows) if (row.on.checked) watch(row.send(server));
}

/** @param {unknown} error */
function problem(error) {
  const element = find(document, '#problem', HTMLElement);
  element.hidden = error === '';
  if (error instanceof TypeError)
    element.textContent = 'The demo does not answer. Start it again: npm run demo';
  else if (error instanceof Error) element.textContent = error.message;
}

/** Sends at the chosen rate while it is held. */
class Repeater {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #next = 0;

  start() {
    if (this.#timer !== undefined) return;
    this.#next = performance.now();
    this.#tick();
  }

  #tick() {
    // A tab in the background ticks once a second: what it missed is not made up for.
    this.#next = Math.max(this.#next, performance.now() - 1_000);
    while (this.#next <= performance.now()) {
      send();
      this.#next += 1_000 / Number(input('rate').value);
    }
    this.#timer = setTimeout(() => this.#tick(), this.#next - performance.now());
  }

  stop() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  get running() {
    return this.#timer !== undefined;
  }
}

const held = new Repeater();
const running = new Repeater();

const sendButton = find(document, '#send', HTMLButtonElement);
sendButton.addEventListener('pointerdown', (event) => event.button === 0 && held.start());
for (const event of ['pointerup', 'pointerleave', 'pointercancel', 'blur', 'keyup'])
  sendButton.addEventListener(event, () => held.stop());
sendButton.addEventListener('keydown', ({ key }) => (key === ' ' || key === 'Enter') && held.start());

const runButton = find(document, '#run', HTMLButtonElement);
function toggleRun() {
  if (running.running) running.stop();
  else running.start();
  runButton.setAttribute('aria-pressed', String(running.running));
}
runButton.addEventListener('click', toggleRun);

/** How long the show lasts by itself, ms. */
const SHOW = 20_000;

/** What there is to see, for who has just come: until it is over, or somebody does something. `?still` is without. */
function show() {
  const ending = new AbortController();
  const { signal } = ending;
  const end = (/** @type {Event | undefined} */ event) => {
    // A press of the run button stops it by itself.
    if (running.running && !(event?.target instanceof Node && runButton.contains(event.target))) toggleRun();
    ending.abort();
  };
  for (const event of ['pointerdown', 'keydown'])
    find(document, '#controls', HTMLFormElement).addEventListener(event, end, { signal, capture: true });
  addEventListener('keydown', ({ key }) => key.toLowerCase() !== 'r' && end(undefined), { signal });
  setTimeout(() => !signal.aborted && end(undefined), SHOW);
  toggleRun();
  burst();
}

function burst() {
  for (let i = 0; i < 10; i++) send();
}
find(document, '#burst10', HTMLButtonElement).addEventListener('click', burst);

function fresh() {
  client = crypto.randomUUID();
  for (const row of rows) row.clear();
  total = 0;
}
find(document, '#fresh', HTMLButtonElement).addEventListener('click', fresh);

input('rate').addEventListener('input', () => {
  find(document, '#rate-shown', HTMLOutputElement).value = `${input('rate').value} / s`;
});
find(document, '#controls', HTMLFormElement).addEventListener('submit', (event) => event.preventDefault());

/** @param {KeyboardEvent} event */
function typing({ target }) {
  return (
    target instanceof HTMLSelectElement || (target instanceof HTMLInputElement && target.type === 'number')
  );
}

document.addEventListener('keydown', (event) => {
  if (typing(event) || event.ctrlKey || event.metaKey || event.altKey) return;
  const key = event.key.toLowerCase();
  if (key === 's') held.start();
  if (event.repeat) return;
  if (key === 'b') burst();
  if (key === 'r') toggleRun();
  if (key === 'n') fresh();
  rows[Number(key) - 1]?.on.click();
});
document.addEventListener('keyup', ({ key }) => key.toLowerCase() === 's' && held.stop());
addEventListener('blur', () => held.stop());

/** When there was last something to draw. */
let awake = 0;
let drawing = false;

function wake() {
  awake = performance.now();
  if (!drawing) {
    drawing = true;
    requestAnimationFrame(frame);
  }
}

/** @param {number} now */
function frame(now) {
  for (const row of rows) if (row.on.checked) row.draw(now);
  drawing = performance.now() - awake < SPAN + 1_000;
  if (!drawing) return;
  // Who wants less motion sees it in steps.
  if (matchMedia('(prefers-reduced-motion: reduce)').matches)
    setTimeout(() => requestAnimationFrame(frame), 1_000);
  else requestAnimationFrame(frame);
}

setInterval(() => {
  if (performance.now() - awake > SPAN) return;
  for (const row of rows) if (row.on.checked) watch(row.look());
}, 500);

// For those who hear it: what happened, once it is quiet.
setInterval(() => {
  if (performance.now() - awake < 1_000) return;
  const text = rows
    .filter(({ on }) => on.checked)
    .map(({ name, admitted, denied }) => `${name} ${admitted} of ${admitted + denied}`)
    .join(', ');
  const summary = find(document, '#summary', HTMLElement);
  const next = total === 0 ? 'Press S, or hold it.' : `${total} requests. Admitted: ${text}.`;
  if (summary.textContent !== next) summary.textContent = next;
}, 1_000);
wake();
if (!new URLSearchParams(location.search).has('still')) show();
