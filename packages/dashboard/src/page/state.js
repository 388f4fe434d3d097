// The state that the server sends, and requests.
import { addressOf } from './address.js';
import { useEffect, useState } from './lib.js';

/**
 * @typedef {object} App
 * @property {Record<string, any>} parts the parts of the state, by name
 * @property {{ by: string, flags: string[] | null } | null} me the operator, or null for a page that changes nothing
 * @property {string} title
 * @property {boolean} hideKeys
 * @property {string} link the connection: connecting, live, polling, lost, or ended with the session
 * @property {boolean} isLoaded
 * @property {number} heardAt the time of the last update, ms since 1970
 * @property {string} error the reason why updates do not arrive
 * @property {any} change the change in the open dialog
 * @property {any[]} notes the results of changes, the newest last
 * @property {any[]} openNotes those that are shown
 */

/** @type {App} */
export const app = {
  ...{ parts: {}, me: null, title: '', hideKeys: false },
  ...{ link: 'connecting', isLoaded: false, heardAt: 0, error: '', change: null },
  ...{ notes: [], openNotes: [] },
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

const token = () => /(?:^|; )headgate-dashboard-token=([\w-]+)/.exec(document.cookie)?.[1] ?? '';

/** Whether the visitor has to log in. @param {Response} response */
export const isRefusal = (response) =>
  response.redirected || response.status === 401 || response.status === 403;

/** @param {Response} response */
async function read(response) {
  const text = await response.text();
  const isRefused = isRefusal(response);
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    // A proxy or a login page answered in place of the dashboard.
    body = isRefused ? { error: 'Your session has ended. Reload the page.' } : undefined;
  }
  if (response.ok && body !== undefined && body.error === undefined) return body;
  const message = body?.error ?? body?.detail ?? `The server answered with status ${response.status}.`;
  throw Object.assign(new Error(message), { isRefused });
}

/** The longest time for an answer, ms. A process that hangs would leave a question open forever. */
const ANSWER_MS = 30_000;

/** @param {string} path @param {number} [timeoutMs] @returns {Promise<any>} */
export const get = async (path, timeoutMs = ANSWER_MS) =>
  read(
    await answered(
      fetch(addressOf(path, location), { cache: 'no-store', signal: AbortSignal.timeout(timeoutMs) }),
      timeoutMs,
    ),
  );

/** An answer, or an error in words. @param {Promise<Response>} response @param {number} timeoutMs */
export const answered = (response, timeoutMs) =>
  response.catch((error) => {
    throw new Error(
      error.name === 'TimeoutError'
        ? `The server has not answered within ${timeoutMs / 1000} s.`
        : 'The server cannot be reached.',
    );
  });

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

/** The questions of the screen that are asked again after a change. @type {Set<() => void>} */
const questions = new Set();

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
        (error) => ({ error: error.message, isOld: false }),
      );
      if (number !== asked) return;
      setAnswer((/** @type {any} */ last) => ('error' in next && last.value ? { ...last, ...next } : next));
      if (everyMs) timer = setTimeout(run, everyMs);
    };
    const again = () => {
      clearTimeout(timer);
      // The last answer is of the time before a change.
      setAnswer((/** @type {any} */ last) => (last.value ? { ...last, isOld: true } : last));
      void run();
    };
    setAnswer({ isLoading: true });
    void run();
    questions.add(again);
    return () => {
      asked = 0;
      clearTimeout(timer);
      questions.delete(again);
    };
  }, inputs);
  return answer;
}

/** Makes all answers be read again, after a change. */
export function refresh() {
  for (const again of questions) again();
}
