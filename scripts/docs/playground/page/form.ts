// The form of the settings.
import {
  COMPARED,
  EXAMPLES,
  DEFAULTS,
  PATTERNS,
  type Compared,
  type Pattern,
  type Settings,
} from '../settings.js';
import { h, labelled } from './dom.js';

export interface Form {
  readonly element: HTMLElement;
  /** Shows other settings. */
  show(settings: Settings): void;
}

const number = (min: number, max: number): HTMLInputElement =>
  h('input', { type: 'number', min: String(min), max: String(max), step: 'any' });

const choice = (texts: readonly (readonly [string, string])[]): HTMLSelectElement =>
  h('select', {}, ...texts.map(([value, text]) => h('option', { value }, text)));

/**
 * @param onChange gets the settings after each change
 * @param onLog gets a log that was dropped or chosen
 */
export function createForm(onChange: (settings: Settings) => void, onLog: (file: File) => void): Form {
  const example = choice([['', 'Your own'], ...Object.keys(EXAMPLES).map((name) => [name, name] as const)]);
  const fields = {
    policies: h('textarea', { rows: 3, spellcheck: false, autocapitalize: 'off' }),
    pattern: choice(Object.entries(PATTERNS)),
    rate: number(0.001, 50_000),
    seconds: number(0.1, 1e8),
    takes: number(1, 1e8),
    ban: h('input', { type: 'text', placeholder: '5 in 1m for 10m' }),
    wait: h('input', { type: 'text', placeholder: '10s' }),
  };
  const boxes = Object.keys(COMPARED).map((name) => h('input', { type: 'checkbox', value: name }));
  const file = h('input', { type: 'file' });

  const read = (): Settings => ({
    policies: fields.policies.value,
    pattern: fields.pattern.value as Pattern,
    rate: Number(fields.rate.value),
    seconds: Number(fields.seconds.value),
    takes: Number(fields.takes.value),
    ban: fields.ban.value,
    wait: fields.wait.value,
    compare: boxes.filter(({ checked }) => checked).map(({ value }) => value as Compared),
  });

  const show = (settings: Settings): void => {
    for (const [name, field] of Object.entries(fields))
      field.value = String(settings[name as keyof Settings]);
    for (const box of boxes) box.checked = settings.compare.includes(box.value as Compared);
  };

  const changed = (): void => {
    example.value = '';
    onChange(read());
  };
  for (const field of [...Object.values(fields), ...boxes]) field.addEventListener('input', changed);
  example.addEventListener('change', () => {
    const chosen = EXAMPLES[example.value];
    if (!chosen) return;
    show({ ...DEFAULTS, ...chosen });
    onChange(read());
  });
  file.addEventListener('change', () => file.files?.[0] && onLog(file.files[0]));

  const compare = h('fieldset', {}, h('legend', {}, 'Show beside the first policy'));
  for (const box of boxes) compare.append(h('label', {}, box, ` ${box.value}`));
  const log = h('div', { className: 'drop' }, labelled('Or drop an access log here, or choose a file', file));
  acceptDrops(log, onLog);
  const element = h(
    'form',
    { onsubmit: (event: Event) => event.preventDefault() },
    labelled('Example', example),
    labelled('Policies, one a line', fields.policies, 'such as token-bucket 100/1m burst 20'),
    h(
      'div',
      { className: 'row' },
      labelled('Pattern of requests', fields.pattern),
      labelled('Requests a second', fields.rate),
    ),
    h(
      'div',
      { className: 'row' },
      labelled('Seconds', fields.seconds),
      labelled('A request takes (ms)', fields.takes),
    ),
    h(
      'div',
      { className: 'row' },
      labelled('Ban after denials', fields.ban),
      labelled('Wait in line up to', fields.wait),
    ),
    compare,
    log,
  );
  return { element, show };
}

/** A file may be dropped anywhere on the page. The area only shows that it may. */
function acceptDrops(area: HTMLElement, onLog: (file: File) => void): void {
  const mark = (isOver: boolean): void => void area.classList.toggle('over', isOver);
  document.addEventListener('dragover', (event) => {
    if (!area.isConnected || !event.dataTransfer?.types.includes('Files')) return;
    event.preventDefault();
    mark(true);
  });
  document.addEventListener('dragleave', () => mark(false));
  document.addEventListener('drop', (event) => {
    const [file] = event.dataTransfer?.files ?? [];
    if (!area.isConnected || !file) return;
    event.preventDefault();
    mark(false);
    onLog(file);
  });
}
