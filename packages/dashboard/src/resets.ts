import type { Admin, ResetOptions, ResetResult } from 'headgate/admin';
import { onPage } from './words.js';

/** A limiter that forgets the charges of a key. */
export interface Place {
  readonly name: string;
  readonly dimension?: string;
}

export interface PlaceResult extends Place {
  /** The policies that had charges. */
  readonly policies: readonly string[];
  /** The reason why nothing was reset. */
  readonly error?: string;
}

interface Options extends Pick<ResetOptions, 'by' | 'reason' | 'raw'> {
  readonly places: readonly Place[];
}

/**
 * Resets a key in one place after the other. After a failure, the later places are not tried, and the result names them.
 *
 * @throws HeadgateError if the first place fails
 */
export async function resetIn(
  admin: Admin,
  key: string,
  { places, ...options }: Options,
): Promise<readonly (PlaceResult & Pick<ResetResult, 'warnings'>)[]> {
  const results = [];
  let hasFailed = false;
  for (const [i, place] of places.entries()) {
    if (hasFailed) {
      results.push({ ...place, ...NOTHING, error: 'not tried' });
      continue;
    }
    try {
      const { policies, warnings } = await admin.reset(key, { ...options, ...place });
      results.push({ ...place, policies, warnings });
    } catch (error) {
      if (i === 0) throw error;
      hasFailed = true;
      const message = error instanceof Error ? error.message : String(error);
      results.push({ ...place, ...NOTHING, error: onPage(message) });
    }
  }
  return results;
}

const NOTHING = { policies: [], warnings: [] };
