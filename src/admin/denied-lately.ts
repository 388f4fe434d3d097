import { DEFAULT_DIMENSION } from '../contract/key.js';
import type { DeniedNow } from './denied-now.js';
import type { KeyView } from './key-view.js';
import { countedOwner, whoseOf } from './owners.js';
import { dimensionsOfBans, policiesIn, type Configuration, type Published } from './published.js';
import type { State } from './state.js';

/** Adds the denials of the last seconds because of keys of other dimensions, which no view of the key itself shows. */
export async function withDeniedLately(
  { counts }: State,
  published: Published,
  denied: DeniedNow,
  views: readonly KeyView[],
): Promise<KeyView[]> {
  if (!counts) return [...views];
  return Promise.all(
    views.map(async (view) => {
      // Limiters of one dimension need no reading of the counts.
      if (!hasSeveralDimensions(published.scopes.get(view.name) ?? [])) return view;
      const whose = whoseOf(countedOwner(view, counts.text), view.name);
      const deniedLately = whose && (await denied.forOther(whose));
      return deniedLately ? { ...view, deniedLately } : view;
    }),
  );
}

function hasSeveralDimensions(configurations: readonly Configuration[]): boolean {
  const dimensions = policiesIn(configurations).map(({ by = DEFAULT_DIMENSION }) => by);
  const isDynamic = configurations.some(({ dynamic }) => dynamic);
  return isDynamic || new Set([...dimensions, ...dimensionsOfBans(configurations)]).size > 1;
}
