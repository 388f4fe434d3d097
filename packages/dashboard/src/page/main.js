// The frame of the page, and the choice of the screen.
import { ChangeDialog } from './dialog.js';
import { KeyScreen, KeySearch } from './key.js';
import { html, renderPage, useEffect, useState } from './lib.js';
import { connect, disconnect, linkOf } from './link.js';
import { LogScreen } from './log.js';
import { Notes, NotesButton } from './notes.js';
import { NowScreen } from './now.js';
import { changed, useApp } from './state.js';
import { Outage } from './outage.js';
import { ProcessesScreen } from './processes.js';
import { printable } from './text.js';
import { switchZone, zone } from './zone.js';
import { WhatIfScreen } from './what-if.js';

const SCREENS = /** @type {const} */ ([
  ['now', 'Now'],
  ['key', 'A key'],
  ['what-if', 'What if'],
  ['log', 'Log'],
  ['processes', 'Processes'],
]);

/** A hidden page reads on for this time, in case its reader returns at once. */
const HIDDEN_MS = 30_000;

/** The screen and its subject in the fragment, which no server sees. */
function route() {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [screen = '', ...rest] = path.split('/');
  const known = SCREENS.some(([name]) => name === screen);
  return {
    screen: known ? screen : 'now',
    of: decode(rest.join('/')),
    by: decode(new URLSearchParams(query).get('by') ?? ''),
  };
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function useRoute() {
  const [at, setAt] = useState(route);
  useEffect(() => {
    const listener = () => {
      setAt(route());
      scrollTo(0, 0);
    };
    addEventListener('hashchange', listener);
    return () => removeEventListener('hashchange', listener);
  }, []);
  return at;
}

function Page() {
  const { me, title, isLoaded } = useApp();
  const link = linkOf();
  const { screen, of, by } = useRoute();
  const name = SCREENS.find(([each]) => each === screen)?.[1];
  useEffect(() => {
    document.title = `${name}${title ? ` · ${printable(title)}` : ''} · Headgate`;
  }, [name, title]);
  return html`<a
      class="skip"
      href="#main"
      onClick=${(/** @type {Event} */ event) => {
        event.preventDefault();
        document.getElementById('main')?.focus();
      }}
      >Skip to the content</a
    >
    <header class="bar-top">
      <div class="inner">
        <h1>
          <svg viewBox="0 0 32 32" aria-hidden="true">
            <rect width="32" height="32" rx="7" class="mark" />
            <path d="M8 25V9m16 16V9M8 11h16" class="gate" />
            <path d="M13 16v9m6-9v5" class="flow" /></svg
          >Headgate${title ? html`<span class="title">${printable(title)}</span>` : ''}
        </h1>
        <nav aria-label="Screens">
          ${SCREENS.map(([each, label]) => html`<a href=${`#/${each}`} aria-current=${each === screen ? 'page' : undefined}>${label}</a>`)}
        </nav>
        ${screen === 'key' ? html`<span class="search"></span>` : html`<${KeySearch} id="find" />`}
        <p class=${`link ${link.kind}`}>
          <i class="dot" aria-hidden="true"></i><span role="status">${link.text}</span>${link.age}
        </p>
        <${NotesButton} />
        <button
          type="button"
          class="small ghost zone"
          title="Show times in another zone"
          onClick=${() => {
            switchZone();
            changed();
          }}
        >
          ${zone()}
        </button>
        <p class="me">${me ? printable(me.by) : isLoaded ? 'read-only' : ''}</p>
      </div>
    </header>
    <main id="main" tabindex="-1" class=${link.isSilent ? 'old' : ''}>
      ${isLoaded && html`<${Outage} />`}
      ${screen === 'now' ? html`<${NowScreen} />` : screen === 'key' ? html`<${KeyScreen} of=${of} by=${by} />` : screen === 'what-if' ? html`<${WhatIfScreen} name=${of} />` : screen === 'processes' ? html`<${ProcessesScreen} />` : html`<${LogScreen} />`}
    </main>
    <${ChangeDialog} /><${Notes} />`;
}

addEventListener('keydown', (event) => {
  const { target, key } = event;
  const isTyping = target instanceof HTMLElement && target.matches('input, textarea, select, dialog *');
  if (key !== '/' || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  const field = document.getElementById('find') ?? document.getElementById('key');
  if (!(field instanceof HTMLInputElement)) return;
  field.focus();
  field.select();
});

/** @type {ReturnType<typeof setTimeout> | undefined} */
let leaving;
let isAway = false;
document.addEventListener('visibilitychange', () => {
  clearTimeout(leaving);
  if (document.hidden) {
    leaving = setTimeout(() => {
      isAway = true;
      disconnect();
    }, HIDDEN_MS);
  } else if (isAway) {
    isAway = false;
    connect();
  }
});

renderPage(html`<${Page} />`, document.getElementById('app'));
connect();
