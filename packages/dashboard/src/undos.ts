import { HeadgateError } from 'headgate';
import { withoutPage, type Admin, type AdminWarning } from 'headgate/admin';
import { text, texts, type Body } from './input.js';

/** The result for one of the changes to undo. */
interface UndoneEntry {
  readonly id: string;
  /** The reason why the change was not undone. */
  readonly error?: string;
}

interface Undone {
  readonly warnings: readonly AdminWarning[];
  /** An undo has no undo on the page, except in the log. */
  readonly entries: readonly [];
  readonly undone: readonly UndoneEntry[];
}

/** The answers about a single change. The other changes can still be undone. */
const REFUSALS = ['HEADGATE_CHANGED_SINCE', 'HEADGATE_CANNOT_UNDO', 'HEADGATE_UNKNOWN_CHANGE'];

/**
 * Undoes changes one after the other. After a failure of the store, the later ones are not tried, and the result names them.
 *
 * @throws HeadgateError the first error if nothing was undone
 */
export async function undo(admin: Admin, body: Body, by: string): Promise<Undone> {
  const reason = text(body, 'reason');
  const warnings: AdminWarning[] = [];
  const undone: UndoneEntry[] = [];
  const errors: unknown[] = [];
  let hasFailed = false;
  for (const id of new Set(texts(body, 'ids'))) {
    if (hasFailed) {
      undone.push({ id, error: 'not tried' });
      continue;
    }
    try {
      warnings.push(...(await admin.undo(id, { by, reason })).warnings);
      undone.push({ id });
    } catch (error) {
      errors.push(error);
      hasFailed = !isRefusal(error);
      const message = error instanceof Error ? error.message : String(error);
      undone.push({ id, error: withoutPage(message).replace(/ Nothing was changed\..*/s, '') });
    }
  }
  if (errors.length > 0 && undone.every(({ error }) => error !== undefined)) throw errors[0];
  return { warnings, entries: [], undone };
}

const isRefusal = (error: unknown): boolean =>
  error instanceof HeadgateError && REFUSALS.includes(error.code);
