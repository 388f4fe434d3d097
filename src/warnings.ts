import { withPage } from './errors.js';

/** Codes of the process warnings that tell of a set-up that needs somebody's attention. */
export type WarningCode =
  | 'HEADGATE_BANS_UNKNOWN'
  | 'HEADGATE_SILENT_CONNECTION'
  | 'HEADGATE_STORE_FULL'
  | 'HEADGATE_TOO_MANY_POLICIES';

const given = new Set<WarningCode>();

/** Emits a process warning, the first time that this process has reason for it. */
export function warnOnce(code: WarningCode, message: string): void {
  if (given.has(code)) return;
  given.add(code);
  process.emitWarning(withPage(code, message), { type: 'HeadgateWarning', code });
}
