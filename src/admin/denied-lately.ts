import type { DeniedNow } from './denied-now.js';
import type { KeyView } from './key-view.js';
import { countedOwner, whoseOf } from './owners.js';
import { dimensionsIn, type Published } from './published.js';
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
      const configurations = published.scopes.get(view.name) ?? [];
      const isDynamic = configurations.some(({ dynamic }) => dynamic);
      if (!isDynamic && dimensionsIn(configurations).length < 2) return view;
      const whose = whoseOf(countedOwner(view, counts.text), view.name);
      const deniedLately = whose && (await denied.forOther(whose));
      return deniedLately ? { ...view, deniedLately } : view;
    }),
  );
}
