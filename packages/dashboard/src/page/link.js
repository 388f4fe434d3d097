// The connection to the server: a stream of updates, or polling, and a watch over both.
import { addressOf } from './address.js';
import { answered, app, changed, get, isRefusal } from './state.js';
import { span } from './text.js';

const POLL_MS = 3000;
const RETRY_STREAM_MS = 60_000;

/** The time without an update after which figures are old, ms. The server sends an update every two seconds, also if nothing has changed. */
const STALE_MS = 10_000;

/** The time without an update after which the page polls, ms. */
const SILENCE_MS = 12_000;

/** The longest time for the answer to a poll, ms. */
const POLL_ANSWER_MS = 8000;

/** The time between two looks at the session, ms. A stream that is open does not end with the session. */
const SESSION_MS = 10_000;

/** @type {EventSource | undefined} */
let source;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let silence;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let polling;

/** The number of the present connection. */
let attempt = 0;

const LINKS = /** @type {Record<string, string>} */ ({
  connecting: 'Connecting',
  live: 'Live',
  polling: 'Every 3 s',
  lost: 'Connection lost',
  ended: 'Session ended',
});

/** The age of the figures, ms. */
const ageMs = () => (app.isLoaded ? Date.now() - app.heardAt : 0);

/** The connection in words. A dead one is seen by its silence alone, because the browser does not report it. */
export function linkOf() {
  const isEnded = app.link === 'ended';
  const isSilent = ageMs() >= STALE_MS;
  const isDown = app.parts.store?.state === 'down';
  if (isSilent && !isEnded)
    return { kind: 'lost', text: 'No data', age: ` for ${span(ageMs())}`, isSilent, isEnded };
  return {
    ...{ kind: isDown && !isEnded ? 'lost' : app.link, isSilent: isSilent || isEnded, isEnded, age: '' },
    text: isDown && !isEnded ? 'Store down' : LINKS[app.link],
  };
}

/** @param {string} link */
function setLink(link) {
  if (app.link === link) return;
  app.link = link;
  changed();
}

/** Takes an update of the server. @param {any} update */
function take(update) {
  const { full, set, gone } = update;
  const kept = full ? {} : app.parts;
  app.parts = { ...kept, ...set };
  for (const name of gone) delete app.parts[name];
  if (full) Object.assign(app, { me: update.me, title: update.title, hideKeys: update.hideKeys });
  app.isLoaded ||= full;
  Object.assign(app, { error: '', heardAt: Date.now() });
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
    listen();
    take(JSON.parse(data));
    setLink('live');
  };
  // The server ends each stream after a minute, to see the session again.
  source.addEventListener('end', connect);
  source.onerror = () => {
    // An update clears it. A server that hangs causes no error.
    app.error = 'The server cannot be reached.';
    setLink('lost');
    // The browser connects again by itself, unless the server refused.
    if (source?.readyState === EventSource.CLOSED) void poll();
    else listen();
  };
}

export function disconnect() {
  attempt++;
  source?.close();
  source = undefined;
  clearTimeout(silence);
  clearTimeout(polling);
}

async function poll() {
  disconnect();
  const own = attempt;
  const startedAt = Date.now();
  const again = async () => {
    if (Date.now() - startedAt > RETRY_STREAM_MS) return connect();
    const update = await get('api/now', POLL_ANSWER_MS).catch((error) => ({ error }));
    // The page has connected again, or was hidden, meanwhile.
    if (own !== attempt) return;
    if (update.error) fail(update.error);
    else {
      take(update);
      setLink('polling');
    }
    polling = setTimeout(again, POLL_MS);
  };
  await again();
}

/** @param {Error & { isRefused?: boolean }} error */
function fail({ message, isRefused = false }) {
  app.error = message;
  app.link = isRefused ? 'ended' : 'lost';
  changed();
}

/** Ends the stream of a session that has ended. */
async function checkSession() {
  if (app.link !== 'live') return;
  const request = fetch(addressOf('api/stream', location), {
    method: 'HEAD',
    signal: AbortSignal.timeout(POLL_ANSWER_MS),
  });
  const response = await answered(request, POLL_ANSWER_MS).catch(() => undefined);
  // Without an answer, the watch decides.
  if (response && isRefusal(response)) void poll();
}

/** Draws the age of figures while no update arrives. */
function watch() {
  if (ageMs() >= STALE_MS) changed();
}

setInterval(watch, 1000);
setInterval(checkSession, SESSION_MS);
