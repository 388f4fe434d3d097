// The page of the playground.
import { fromLink, toLink, type Settings } from '../settings.js';
import type * as Core from '../core.js';
import type { readAccessLog } from '../access-log.js';
import { copyButton, h } from './dom.js';
import { createForm } from './form.js';
import { createResults } from './results.js';
import { count } from './texts.js';

/** What the page loads beside itself. */
export interface Parts {
  readonly core: typeof Core;
  /** Loaded with the first log. */
  readonly loadLogReader: () => Promise<{ readAccessLog: typeof readAccessLog }>;
}

/** Shows the playground in an element. @returns a function that ends it */
export function mount(element: HTMLElement, { core, loadLogReader }: Parts): () => void {
  let settings = fromLink(location.hash);
  let log: Core.AccessLog | undefined;
  const problem = h('p', { role: 'alert', className: 'problem' });
  const status = h('p', { role: 'status', className: 'status' });
  const code = h('pre', { tabIndex: 0, role: 'region', 'aria-label': 'Code' });
  const results = createResults(core.responseOf);

  const fail = (error: unknown): void => {
    problem.textContent = error instanceof Error ? error.message : String(error);
    element.dataset['state'] = 'failed';
  };

  /** Results of earlier settings are not shown. */
  let runs = 0;
  /** Simulations have one clock, so they run one after the other. */
  let last = Promise.resolve();
  const start = (): void => {
    const number = (runs += 1);
    element.dataset['state'] = 'running';
    last = last.then(() => (number === runs ? run(number) : undefined));
  };
  const run = async (number: number): Promise<void> => {
    const startedAt = performance.now();
    try {
      if (settings.pattern === 'log' && !log)
        throw new Error('No access log yet: drop one onto the page. It stays in your browser.');
      const simulation = await core.simulate(settings, log);
      if (number !== runs) return;
      const decidedAt = performance.now();
      results.show(simulation);
      code.textContent = core.codeOf(settings);
      problem.textContent = '';
      const [{ outcomes }] = simulation.lanes as [Core.Lane];
      const [decided, drawn] = [decidedAt - startedAt, performance.now() - decidedAt].map(Math.round);
      const times = simulation.lanes.length === 1 ? 'once' : `${simulation.lanes.length} times`;
      status.textContent = `${count(outcomes.length)} requests, decided ${times} in ${decided} ms, drawn in ${drawn} ms.`;
      element.dataset['state'] = 'shown';
    } catch (error) {
      if (number === runs) fail(error);
    }
  };

  const change = (next: Settings): void => {
    settings = next;
    const fragment = toLink(settings);
    history.replaceState(
      history.state,
      '',
      `${location.pathname}${location.search}${fragment && `#${fragment}`}`,
    );
    later.start();
  };
  const later = debounced(start);

  const readLog = async (file: File): Promise<void> => {
    try {
      const { readAccessLog } = await loadLogReader();
      log = readAccessLog(file.name, await file.text());
      settings = { ...settings, pattern: 'log' };
      form.show(settings);
      change(settings);
    } catch (error) {
      fail(error);
    }
  };
  const form = createForm(change, (file) => void readLog(file));

  const goTo = (): void => {
    settings = fromLink(location.hash);
    form.show(settings);
    start();
  };
  addEventListener('hashchange', goTo);
  addEventListener('resize', results.redraw);
  const themes = new MutationObserver(results.redraw);
  themes.observe(document.documentElement, { attributeFilter: ['class'] });

  const copy = h(
    'p',
    { className: 'buttons' },
    copyButton('Copy the code', () => code.textContent),
    copyButton('Copy a link to this', () => location.href),
  );
  element.replaceChildren(
    form.element,
    h('div', { className: 'right' }, problem, status, results.element, h('h2', {}, 'The code'), code, copy),
  );
  form.show(settings);
  start();
  return () => {
    removeEventListener('hashchange', goTo);
    removeEventListener('resize', results.redraw);
    themes.disconnect();
    later.stop();
  };
}

/** Typing runs only the last text. */
function debounced(run: () => void): { start(): void; stop(): void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const stop = (): void => clearTimeout(timer);
  const start = (): void => {
    stop();
    timer = setTimeout(run, 120);
  };
  return { start, stop };
}
