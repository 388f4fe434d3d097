import type { OverridePlace, OverrideStore } from './contract/override-store.js';

/** The same overrides, which change after a function. */
export function afterwards(
  overrides: OverrideStore | undefined,
  first: (place: OverridePlace) => Promise<unknown>,
): OverrideStore | undefined {
  return (
    overrides && {
      ...overrides,
      change: async (place, change) => {
        await first(place);
        return overrides.change(place, change);
      },
    }
  );
}
