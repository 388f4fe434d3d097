import { UNENDED_RECORD_MS, type RecordChange } from '../../../contract/overrides.js';

/** Limit of the stored data. `docs/redis.md` lists it. */
const MAX_RECORDED_OVERRIDES = 100_000;

/** The key of the index. Without a colon between the braces, it is never a limiter's. */
export function overrideBookKeys(prefix: string): [index: string] {
  return [`${prefix}:{overrides}`];
}

/** The arguments of `note-override.lua` for a change. @param owner the owner text */
export function overrideBookArgs(owner: string, { entry, duration }: RecordChange): string[] {
  const length = entry === '' ? 0 : duration === 0 ? UNENDED_RECORD_MS : duration;
  return [String(MAX_RECORDED_OVERRIDES), owner, String(length)];
}
