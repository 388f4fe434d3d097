import { HeadgateError, show } from '../common/errors.js';
import { MAX_UNITS } from '../common/validate.js';
import type { ChangeReply, PolicySet, Reply } from '../contract/store.js';
import { areVerdicts } from '../contract/verdicts.js';

export function malformedReply(reply: unknown): HeadgateError {
  return new HeadgateError(
    'HEADGATE_MALFORMED_REPLY',
    `The store's reply is not a decision: ${show(reply)}.`,
  );
}

/** Whether a store's answer is a reply with verdicts on a set. Stores are not trusted to answer correctly. */
export function isReply(answer: unknown, { policies, ban: banning, overrides }: PolicySet): answer is Reply {
  const { now, step, ban, verdicts, full = 0, degraded, limits, rules } = (answer ?? {}) as Partial<Reply>;
  if (
    !Number.isSafeInteger(step) ||
    !Number.isSafeInteger(now) ||
    now! < 0 ||
    !Number.isSafeInteger(ban) ||
    !Array.isArray(verdicts)
  )
    return false;
  if (ban !== 0 && !banning) return false;
  if (rules !== undefined) return overrides !== undefined && verdicts.length === 0;
  if (limits !== undefined && !(Array.isArray(limits) && limits.length === policies.length)) return false;
  if (!Number.isSafeInteger(full) || full < 0) return false;
  if (ban! > 0 || degraded === 'allow' || degraded === 'deny') return verdicts.length === 0;
  return areVerdicts(verdicts, policies.length);
}

/** Whether a store's answer to a change tells what each policy was charged. */
export function tellsCharges({ charged }: Partial<ChangeReply>, { policies }: PolicySet): boolean {
  return (
    Array.isArray(charged) &&
    charged.length === policies.length &&
    charged.every((units) => Number.isSafeInteger(units) && units >= 0 && units <= MAX_UNITS)
  );
}
