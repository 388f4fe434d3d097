// The command line that does the same as a button.

/** A word of a POSIX shell. Undefined if no shell can pass the text. @param {string} text */
export function shellWord(text) {
  if (text.includes('\0') || !text.isWellFormed()) return undefined;
  if (/^[\w@%+:,./=-]+$/.test(text)) return text;
  // Invisible characters as escapes, which bash and zsh read.
  if (/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(text)) {
    const escaped = text.replace(/[\\']/g, '\\$&').replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => {
      const code = /** @type {number} */ (c.codePointAt(0));
      return code < 0x10000
        ? `\\u${code.toString(16).padStart(4, '0')}`
        : `\\U${code.toString(16).padStart(8, '0')}`;
    });
    return `$'${escaped}'`;
  }
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** The words of an override's change. @param {any} change */
function changeWords(change) {
  if (typeof change === 'string') return [change];
  if ('tier' in change) return [];
  const entries = Object.entries(change);
  const isPlain = entries.every(([name, text]) => /^[^=\s"[{]+$/.test(name) && typeof text === 'string');
  return isPlain ? entries.map(([name, text]) => `${name}=${text}`) : [JSON.stringify(change)];
}

/**
 * The command line of a change as words.
 *
 * @param {any} change the body of the request
 * @param {string} by the operator
 * @param {string[]} store the options that name the store
 */
function wordsOf(change, by, store) {
  const { action, name, key, all, dimension, raw, reason } = change;
  if (action === 'import') return importWords(change, by, store);
  const isOverride = action === 'override' || action === 'remove';
  const positional = [
    ...(isOverride && all ? [] : [key]),
    ...(action === 'ban' ? [change.for] : []),
    ...(action === 'override' ? changeWords(change.change) : []),
  ];
  const flags = [
    ...(isOverride && all ? ['--all'] : []),
    ...(action === 'remove' ? ['--remove'] : []),
    ...(action === 'remove' && change.unban ? ['--unban'] : []),
    ...(!isOverride && all ? ['--all-limiters'] : ['--name', name]),
    ...(action === 'override' && change.for ? ['--for', change.for] : []),
    ...(action === 'override' && change.until ? ['--until', change.until] : []),
    ...(action === 'override' && change.change?.tier ? ['--tier', change.change.tier] : []),
    ...(dimension ? ['--dimension', dimension] : []),
    ...(raw ? ['--raw'] : []),
    ...(change.fresh ? ['--fresh'] : []),
    ...noteWords(by, reason),
    ...store,
  ];
  const command = action === 'remove' ? 'override' : action;
  // A word that begins with a hyphen would be read as an option.
  return positional.some((word) => word.startsWith('-'))
    ? [command, ...flags, '--', ...positional]
    : [command, ...positional, ...flags];
}

/** @param {any} change @param {string} by @param {string[]} store */
function importWords({ kind, name, for: length, dimension, file = `${kind}.jsonl`, reason }, by, store) {
  return [
    ...(kind === 'bans' ? ['bans', 'import'] : ['override', '--file']),
    file.startsWith('-') ? `./${file}` : file,
    ...(name === undefined ? [] : ['--name', name]),
    ...(length ? ['--for', length] : []),
    ...(dimension ? ['--dimension', dimension] : []),
    ...noteWords(by, reason),
    ...store,
  ];
}

/** @param {string} by @param {string} reason */
const noteWords = (by, reason) => ['--by', by, ...(reason ? ['--reason', reason] : [])];

/**
 * The command line of a change, or undefined if no shell can pass its key.
 *
 * @param {any} change
 * @param {string} by
 * @param {string[]} [store] the options that name the store
 * @returns {string | undefined}
 */
export function commandLine(change, by, store = []) {
  if (change.action === 'undo')
    return change.ids
      .map((/** @type {string} */ id) =>
        lineOf(['log', '--undo', id, ...noteWords(by, change.reason), ...store]),
      )
      .join(' &&\n');
  // The command line resets a key of one limiter and dimension at a time.
  if (change.action === 'reset' && change.all) {
    const lines = change.places.map((/** @type {any} */ { name, dimension }) =>
      lineOf(wordsOf({ ...change, all: undefined, name, dimension }, by, store)),
    );
    return lines.includes(undefined) ? undefined : lines.join(' &&\n');
  }
  return lineOf(wordsOf(change, by, store));
}

/** @param {string[]} words */
function lineOf(words) {
  const quoted = words.map(shellWord);
  return quoted.includes(undefined) ? undefined : `headgate ${quoted.join(' ')}`;
}

/** The object of a ban, in words: a key, or all keys of a network. @param {any} change @returns {string} */
export function bannedText({ key, raw }) {
  const [, address = '', length = ''] = /^([\da-f:.]+)\/(\d+)$/i.exec(raw ? '' : (key ?? '')) ?? [];
  if (address.includes(':')) return Number(length) < 48 ? 'the keys of this network' : 'this key';
  const keys = address === '' ? 1 : 2 ** (32 - Number(length));
  return keys > 1 ? `the ${keys.toLocaleString('en')} keys of this network` : 'this key';
}

/** Whether a key must be taken literally: its text could be read as an address or a network. @param {string} key */
export function isAmbiguous(key) {
  if (key.trim() === '') return true;
  return /[.:/]/.test(key) && /^[\d.:a-f/%[\]]*$/i.test(key) && !/^\d{1,3}(\.\d{1,3}){3}$/.test(key);
}

/** A policy's text with another number of units: '100/1m' times 2. @param {string} text @param {number} factor */
export function scaled(text, factor) {
  const [, units = '', window = ''] = /(\d+)\s*\/\s*(\S+)/.exec(text) ?? [];
  return `${Math.max(1, Math.round(Number(units) * factor))}/${window}`;
}

/** A whole policy with another number of units. Its burst changes in proportion, as in an override. @param {string} text @param {number} factor */
export function scaledPolicy(text, factor) {
  const burst = (/** @type {string} */ _, /** @type {string} */ units) =>
    ` burst ${Math.max(1, Math.round(Number(units) * factor))}`;
  return text.replace(/\d+\s*\/\s*\S+/, scaled(text, factor)).replace(/ burst (\d+)/, burst);
}

/** The name and the limit in a policy's text. @param {string} text */
export function policyParts(text) {
  const quoted = /^"((?:[^"\\]|\\.)*)"=/.exec(text);
  const plain = /^([^\s="]+)=/.exec(text);
  const name = quoted?.[1] ? quoted[1].replace(/\\(.)/g, '$1') : (plain?.[1] ?? 'default');
  const rest = text.slice((quoted ?? plain)?.[0].length ?? 0);
  const [, dimension] = / by (\S+)/.exec(rest) ?? [];
  const [, limit = '0'] = /(\d+)\s*\//.exec(rest) ?? [];
  const [, burst = limit] = / burst (\d+)/.exec(rest) ?? [];
  return {
    name,
    rest,
    dimension: dimension ?? 'key',
    limit: Number(limit),
    capacity: Number(burst),
    isNamed: Boolean(quoted ?? plain),
  };
}
