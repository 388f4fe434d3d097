// Values and errors for messages. Users, clients and drivers put secrets into both: passwords in URLs, tokens, and the options of connections.
import { printableJson } from './printable.js';

/**
 * A URL, a user with a password before a host, a field with a secret's name, or the value of an Authorization field. Texts can be a client's,
 * of any length, so no search here takes more than a time in proportion to the length: what repeats is bounded, or ends where it began.
 */
const SECRETIVE =
  /:\/\/|\S:[^\s:@]*@|(pass\w{0,20}|pwd|secret|token|auth(?!or)\w{0,20}|api[-_]?key)["']?\s{0,9}[=:]|^\s*(bearer|basic|digest|token|apikey)\s+\S/i;

/** The names of fields and options with secret values. `tokens` is a usual name of a policy. Clients call the words of a command `args`. */
const SECRET_NAME =
  /pass(w|p|$)|pwd|^pw$|secret|token(?!s$)|credential|cookie|session|auth(?!or)|(api|access|private|signing)[-_]?key|ur[il]$|dsn|connectionstring|salt|jwt|^(pin|otp|args)$/i;

/** The words of a text that could be random characters. */
const WORDS = /[\w+=~-]{16,}/g;

/** Whether a word changes between small letters, capitals and digits as often as random characters do. */
function isRandom(word: string): boolean {
  const letters = word.replace(/[^A-Za-z0-9]/g, '');
  const runs = letters.match(/[A-Z]+|[a-z]+|\d+/g)?.length ?? 0;
  // Two capitals in a row distinguish random letters from names such as `maxWaitingPerKey`.
  return /\d/.test(letters) ? runs > 4 : runs > letters.length / 3 && /[A-Z]{2}/.test(letters);
}

/** Whether a text could be, or contain, a secret. */
export function isSecretive(text: string): boolean {
  return SECRETIVE.test(text) || (text.match(WORDS) ?? []).some(isRandom);
}

/** Whether a value has no secrets: it consists of numbers, plain texts, lists and plain objects. */
function isOrdinary(value: unknown): boolean {
  if (typeof value === 'string') return !isSecretive(value);
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(isOrdinary);
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return value instanceof Date;
  return Object.entries(value).every(([name, each]) => isOrdinaryField(name, each));
}

function isOrdinaryField(name: string, value: unknown): boolean {
  return !SECRET_NAME.test(name) && !isSecretive(name) && isOrdinary(value);
}

/** The value as JSON that is safe to write to a terminal. */
function quoted(value: unknown): string {
  return printableJson(JSON.stringify(value));
}

const shortened = (text: string): string => (text.length > 80 ? `${text.slice(0, 80)}…` : text);

/** Describes a value that could be, or contain, a secret, without its text. */
function hidden(value: unknown): string {
  if (typeof value === 'string') {
    const scheme = /^[a-z][a-z+-]{0,20}(?=:\/\/)/i.exec(value)?.[0];
    return scheme ? `a URL (${scheme}:)` : `a hidden text of ${value.length} characters`;
  }
  if (Array.isArray(value)) return `an array of ${value.length}`;
  const { name } = (Object.getPrototypeOf(value) as object | null)?.constructor ?? Object;
  if (name !== 'Object') return shortened(`an object of the class ${quoted(name).slice(1, -1)}`);
  const fields = Object.keys(value as object).map((field) =>
    isSecretive(field) ? '…' : quoted(field).slice(1, -1),
  );
  return shortened(`an object with ${fields.join(', ')}`);
}

/** A short text for any value, for messages. A value that could be, or contain, a secret is only described. Never throws. */
export function show(value: unknown): string {
  if (typeof value === 'function') return 'a function';
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'symbol') return isSecretive(String(value)) ? 'a symbol' : String(value);
  try {
    if (!isOrdinary(value)) return hidden(value);
    if (typeof value === 'string') return quoted(shortened(value));
    return typeof value === 'object' && value !== null ? shortened(quoted(value)) : String(value);
  } catch {
    return 'an object';
  }
}

/** Options for clients and stores. A text in such a place can be a password. */
const CONNECTION =
  /(^|: )(client|store|limiter|redis|register|redisStore|postgresStore|upstashRedis|createAdmin)$/;

/** Whether an option's value could be a secret, by its name or by a name in its path, such as `tiers.password`. */
export function isSecretOption(option: string): boolean {
  return CONNECTION.test(option) || option.split('.').some((name) => SECRET_NAME.test(name));
}

/** The value of an option. Values of options like `password`, and texts in place of clients and stores, are only described. */
export function showOption(option: string, value: unknown): string {
  const canHide = typeof value === 'string' || (typeof value === 'object' && value !== null);
  return canHide && isSecretOption(option) ? hidden(value) : show(value);
}

/** Users and passwords before hosts, except in the examples of messages. */
const USER =
  /([a-z][\w+.-]{0,20}:\/{1,9})(?!\/|user:password@)[^\s"'<>`]{0,200}@|(?<![\w/+:.-])[^\s:@/"'`]{1,100}:[^\s:@/"'`]{1,100}@(?=[\w[])/gi;
const FIELD = /((?:pass(?:word|wd)?|pwd|secret|token|api[-_]?key)(?:=|":\s?")["']?)[^\s&;,"'})]+/gi;
const AUTHORIZATION = /\b([Bb]earer|[Bb]asic)\s+(?=\S*[A-Z\d=])[\w+/=.~-]{6,}/g;
const URLS = /\b(?!file:)[a-z]+:\/\/\S+/gi;
/** Words outside the paths of files, whose names can be random. */
const WORDS_OUTSIDE = /(?<![\w+=~/\\-])[\w+=~-]{16,}/g;

const withoutRandom = (word: string): string => (isRandom(word) ? '…' : word);

/** A text of a server, driver or user without the passwords and tokens that it quotes. */
export function withoutSecrets(text: string): string {
  return text
    .replace(USER, '$1…@')
    .replace(FIELD, '$1…')
    .replace(AUTHORIZATION, '$1 …')
    .replace(URLS, (url) => url.replace(WORDS, withoutRandom))
    .replace(WORDS_OUTSIDE, withoutRandom);
}

const TEXTS = ['message', 'stack', 'name'];

/** The most causes of causes that are kept, because causes can form a circle. */
const MAX_CAUSES = 10;

/** A field of an error without secrets, or `undefined` if only its removal helps. */
function cleaned(name: string | symbol, value: unknown, depth: number): unknown {
  if (typeof value === 'string' && TEXTS.includes(name as string)) return withoutSecrets(value);
  if (name === 'cause') return withoutSecretFields(value, depth);
  if (name === 'errors' && Array.isArray(value)) {
    const errors = value.map((each: unknown) => withoutSecretFields(each, depth));
    return errors.every((each, i) => each === value[i]) ? value : errors;
  }
  return typeof value === 'function' || isOrdinaryField(String(name), value) ? value : undefined;
}

/**
 * An error without secrets, for the `cause` of another error, because clients add the arguments of AUTH and drivers add whole connections.
 *
 * @returns the error itself, or a copy of the same class without the fields that could contain a secret. A thrown value that is not an
 * error is described if it could contain a secret.
 */
export function withoutSecretFields(error: unknown, depth = 0): unknown {
  if (!(error instanceof Error)) return isOrdinary(error) ? error : show(error);
  if (error.name === 'HeadgateError') return error;
  if (depth === MAX_CAUSES) return undefined;
  if (error instanceof DOMException) {
    // The getters of its class refuse a copy. It has no fields of a user.
    const message = withoutSecrets(error.message);
    return message === error.message ? error : new DOMException(message, error.name);
  }
  const fields = Reflect.ownKeys(error).map((name) => {
    const value = error[name as keyof Error];
    return { name, value, kept: cleaned(name, value, depth + 1) };
  });
  if (fields.every(({ value, kept }) => value === kept)) return error;
  const copy = new Error();
  Object.setPrototypeOf(copy, Object.getPrototypeOf(error) as object);
  for (const { name, kept } of fields) {
    const enumerable = Object.prototype.propertyIsEnumerable.call(error, name);
    if (kept !== undefined)
      Object.defineProperty(copy, name, { value: kept, enumerable, writable: true, configurable: true });
  }
  return copy;
}
