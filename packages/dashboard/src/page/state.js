// The state that the server sends, the connection to the server, and requests.
import { addressOf } from './address.js';
import { useEffect, useState } from './lib.js';

/**
 * @typedef {object} App
 * @property {Record<string, any>} parts the parts of the state, by name
 * @property {{ by: string, flags: string[] | null } | null} me the operator, or null for a page that changes nothing
 * @property {string} title
 * @property {boolean} hideKeys
 * @property {string} link the connection: connecting, live, polling, or lost
 * @property {boolean} isLoaded
 * @property {string} error
 * @property {any} change the change in the open dialog
 * @property {any[]} notes the results of changes, the newest last
 */

/** @type {App} */
export const app = {
  ...{ parts: {}, me: null, title: '', hideKeys: false },
  ...{ link: 'connecting', isLoaded: false, error: '', change: null, notes: [] },
};

/** @type {Set<() => void>} */
const listeners = new Set();

export function changed() {
  for (const listener of listeners) listener();
}

/** Opens the dialog of a change. @param {any} change the body of the request, as far as it is known */
export function openChange(change) {
  app.change = change;
  changed();
}

/** Draws a component again at each change of the state. */
export function useApp() {
  const [, draw] = useState(0);
  useEffect(() => {
    const listener = () => draw((/** @type {number} */ n) => n + 1);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return app;
}

/** Takes an update of the server. @param {any} update */
function take(update) {
  const { full, set, gone } = update;
  const kept = full ? {} : app.parts;
  app.parts = { ...kept, ...set };
  for (const name of gone) delete app.parts[name];
  if (full) Object.assign(app, { me: update.me, title: update.title, hideKeys: update.hideKeys });
  app.isLoaded ||= full;
  app.error = '';
  changed();
}

const POLL_MS = 3000;
const SILENCE_MS = 12_000;
const RETRY_STREAM_MS = 60_000;

/** @type {EventSource | undefined} */
let source;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let silence;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let polling;

/** @param {string} link */
function setLink(link) {
  if (app.link === link) return;
  app.link = link;
  changed();
}

/** Reads the stream. If it stays silent, as behind a proxy that collects responses, the page polls. */
export function connect() {
  disconnect();
  source = new EventSource(addressOf('api/stream', location));
  const listen = () => {
    clearTimeout(silence);
    silence = setTimeout(poll, SILENCE_MS);
  };
  listen();
  source.onmessage = ({ data }) => {
    clearTimeout(silence);
    take(JSON.parse(data));
    setLink('live');
  };
  // The server ends each stream after some minutes, to see the session again.
  source.addEventListener('end', connect);
  source.onerror = () => {
    setLink('lost');
    // The browser connects again by itself, unless the server refused.
    if (source?.readyState === EventSource.CLOSED) void poll();
    else listen();
  };
}

export function disconnect() {
  source?.close();
  source = undefined;
  clearTimeout(silence);
  clearTimeout(polling);
}

async function poll() {
  source?.close();
  source = undefined;
  clearTimeout(silence);
  const startedAt = Date.now();
  const again = async () => {
    if (Date.now() - startedAt > RETRY_STREAM_MS) return connect();
    try {
      take(await get('api/now'));
      setLink('polling');
    } catch (error) {
      app.error = /** @type {Error} */ (error).message;
      setLink('lost');
    }
    polling = setTimeout(again, POLL_MS);
  };
  await again();
}

const token = () => /(?:^|; )headgate-dashboard-token=([\w-]+)/.exec(document.cookie)?.[1] ?? '';

/** @param {Response} response */
async function read(response) {
  const text = await response.text();
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    // A proxy or a login page answered in place of the dashboard.
    throw new Error(
      response.redirected || response.status === 401 || response.status === 403
        ? 'Your session has ended. Reload the page.'
        : `The server answered with status ${response.status}.`,
    );
  }
  if (!response.ok)
    throw new Error(body.error ?? body.detail ?? `The server answered with status ${response.status}.`);
  return body;
}

/** @param {string} path @returns {Promise<any>} */
export const get = async (path) => read(await fetch(addressOf(path, location), { cache: 'no-store' }));

/** The text of a file. @param {string} path */
export async function getText(path) {
  const response = await fetch(addressOf(path, location), { cache: 'no-store' });
  return response.ok && !response.redirected ? response.text() : read(response);
}

/** @param {string} path @param {object} body @returns {Promise<any>} */
export const post = async (path, body) =>
  read(
    await fetch(addressOf(path, location), {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-headgate-token': token() },
      body: JSON.stringify(body),
    }),
  );

/** The answer to a question, read again in an interval. @param {() => Promise<any>} ask @param {unknown[]} inputs @param {number} [everyMs] */
export function useAnswer(ask, inputs, everyMs) {
  const [answer, setAnswer] = useState({ isLoading: true });
  useEffect(() => {
    /** The number of the last question. Answers to earlier ones are dropped. */
    let asked = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    const run = async () => {
      const number = ++asked;
      const next = await ask().then(
        (value) => ({ value, readAt: Date.now() }),
        (error) => ({ error: error.message }),
      );
      if (number !== asked) return;
      setAnswer((/** @type {any} */ last) => ('error' in next && last.value ? { ...last, ...next } : next));
      if (everyMs) timer = setTimeout(run, everyMs);
    };
    setAnswer({ isLoading: true });
    void run();
    listeners.add(reread);
    let seen = revision;
    function reread() {
      if (seen === revision) return;
      seen = revision;
      clearTimeout(timer);
      void run();
    }
    return () => {
      asked = 0;
      clearTimeout(timer);
      listeners.delete(reread);
    };
  }, inputs);
  return answer;
}

let revision = 0;

/** Makes all answers be read again, after a change. */
export function refresh() {
  revision++;
  changed();
}
