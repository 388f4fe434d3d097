import { HeadgateError } from 'headgate';
import { createAdmin, withoutPage, type Admin, type AdminOptions, type AdminSource } from 'headgate/admin';
import { flagsOf } from './flags.js';
import { refuse } from './input.js';

/** An operator, with the permission to change limits. */
export interface Operator {
  /** The name for the log: 1 to 100 characters. The page cannot change the name. */
  readonly by: string;
}

/** Options of `dashboard`. */
export interface DashboardOptions<Req = Request> extends AdminOptions {
  /** The state: a store of Headgate, a Redis client, or the path of an SQLite file, as for `createAdmin`. */
  store: AdminSource;
  /**
   * Returns the operator of a request. Without an operator, or without this option, the page is read-only, and only for readers that `auth`
   * admits, or on this machine.
   *
   * @example
   * app.use('/admin/limits', requireLogin, dashboard({ store, auth: 'upstream', actions: (req) => (req.user.isAdmin ? { by: req.user.email } : null) }))
   */
  actions?:
    ((request: Req) => Operator | null | undefined | Promise<Operator | null | undefined>) | undefined;
  /**
   * Who may read the page without being an operator. `'upstream'`: code before the dashboard authenticates its visitors. `'none'`: everybody.
   * Without `auth`, the page serves operators of `actions`, and clients on this machine. Nothing shows whether code before a page authenticates,
   * so a page without both can be mounted, but refuses every other reader (403), with the fix.
   */
  auth?: 'upstream' | 'none' | undefined;
  /** Whether the page shows hashes in place of keys. @default false */
  hideKeys?: boolean | undefined;
  /** A label beside the name of the page, such as the name of the environment. */
  title?: string | undefined;
}

export interface Settings<Req = Request> {
  readonly admin: Admin;
  readonly actions: DashboardOptions<Req>['actions'];
  /** Whether readers that are not operators must be on this machine. */
  readonly isLocal: boolean;
  readonly hideKeys: boolean;
  readonly title: string;
  /** The options with which the command line opens the store, or null if it cannot. */
  readonly flags: readonly string[] | null;
}

/** The function that the user called, for messages. */
export interface Caller {
  readonly name: string;
  readonly example: string;
  /** The options of this function alone. */
  readonly more?: readonly string[];
}

const KNOWN = ['store', 'actions', 'auth', 'hideKeys', 'title', 'prefix', 'hashKeys', 'timeout', 'from'];

const MAX_TITLE = 60;
const MAX_NAME = 100;

/** @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, and as `createAdmin` */
export function compileOptions<Req>(
  options: DashboardOptions<Req>,
  { name: caller, example, more = [] }: Caller,
): Settings<Req> {
  if (typeof options !== 'object' || options === null)
    throw invalid(caller, `pass an object with \`store\`: ${example}`);
  const known = [...KNOWN, ...more];
  for (const name of Object.keys(options))
    if (!known.includes(name))
      throw new HeadgateError(
        'HEADGATE_UNKNOWN_OPTION',
        `${caller}: unknown option '${name}'. Known options: ${known.join(', ')}. For example: ${example}`,
      );
  const { store, actions, auth, hideKeys = false, title = '', prefix, hashKeys, timeout, from } = options;
  if (actions !== undefined && typeof actions !== 'function')
    throw invalid('actions', 'pass a function, such as (req) => ({ by: req.user.email }).');
  if (auth !== undefined && auth !== 'upstream' && auth !== 'none')
    throw invalid('auth', "pass 'upstream' or 'none', or omit the option.");
  if (typeof hideKeys !== 'boolean') throw invalid('hideKeys', 'pass true or false.');
  if (typeof title !== 'string' || title.length > MAX_TITLE)
    throw invalid('title', `pass a text of at most ${MAX_TITLE} characters.`);
  const admin = adminOf(store, { prefix, hashKeys, timeout, from }, example);
  return { admin, actions, isLocal: auth === undefined, hideKeys, title, flags: flagsOf(store, prefix) };
}

/** Calls `createAdmin`. An error about the store names the option `store`, and shows a call of the user's function. */
function adminOf(store: AdminSource, options: AdminOptions, example: string): Admin {
  try {
    return createAdmin(store, options);
  } catch (error) {
    if (!(error instanceof HeadgateError) || !error.message.startsWith('createAdmin: ')) throw error;
    const problem = withoutPage(error.message).replace('createAdmin: ', '');
    throw invalid('store', `${problem} For example: ${example}`);
  }
}

function invalid(option: string, fix: string): HeadgateError {
  return new HeadgateError('HEADGATE_INVALID_OPTION', `${option}: ${fix}`);
}

/**
 * The operator that `actions` returned, or `undefined` for a visitor that only reads. A wrong operator is reported when the page is read,
 * before the first change.
 *
 * @throws RefusedError
 */
export function checkOperator(returned: unknown): Operator | undefined {
  if (!returned) return undefined;
  const { by } = returned as Partial<Record<'by', unknown>>;
  if (typeof by === 'string' && by.trim() !== '' && by.length <= MAX_NAME) return { by };
  return refuse(
    `actions: returned no valid operator. Return { by: 'ada' } with a name of 1 to ${MAX_NAME} characters, or null for a visitor that only reads.`,
    500,
  );
}
