import { byDenials, type KeyRates, type Rates } from './rates.js';

/**
 * The requests a second of a tenant in a shared limit. Processes count a request for the key of the policy that decided it: that of the tenant
 * within the limit's key, or that of the tenant alone.
 *
 * @param rates those of the limiter's keys
 */
export function ratesOfTenant(
  rates: readonly KeyRates[],
  { dimension, within, key }: Required<Pick<KeyRates, 'dimension' | 'within' | 'key'>>,
): Rates & { readonly deniedBy: readonly { readonly policy: string; readonly denied: number }[] } {
  const text = textOf({ dimension, key });
  const own = rates.filter(
    (each) => textOf(each) === text && (each.within === undefined || each.within === within),
  );
  const denials = own.filter(({ policy, denied }) => policy !== undefined && denied > 0).sort(byDenials);
  return {
    ...sumOf(own),
    deniedBy: denials.map(({ policy, denied }) => ({ policy: policy!, denied })),
  };
}

/** The keys with one row for each tenant: if it was also counted by its own key, that key has all of its requests. */
export function withoutPlaces(rates: readonly KeyRates[]): KeyRates[] {
  const alone = new Set(rates.filter(({ within }) => within === undefined).map(textOf));
  const rows = new Map<string, KeyRates[]>();
  for (const each of rates) {
    const { within } = each;
    const id = within === undefined || alone.has(textOf(each)) ? textOf(each) : `${textOf(each)} ${within}`;
    if (!rows.get(id)?.push(each)) rows.set(id, [each]);
  }
  return [...rows.values()].map((own): KeyRates => {
    const [first] = own;
    if (own.length === 1) return first!;
    const { within: _, policy: __, reason: ___, deniedFor: ____, ...row } = first!;
    const denying = [...own].sort(byDenials).find(({ policy, reason }) => policy ?? reason);
    const { policy, reason, deniedFor } = denying ?? {};
    return {
      ...{ ...row, ...sumOf(own) },
      ...(policy !== undefined && { policy }),
      ...(reason && { reason }),
      ...(deniedFor && { deniedFor }),
    };
  });
}

/** A tenant's key, whatever the limit that it shares. */
const textOf = ({ dimension, key }: Pick<KeyRates, 'dimension' | 'key'>): string =>
  JSON.stringify([dimension, key]);

function sumOf(rates: readonly Rates[]): Rates {
  const sum = (field: 'admitted' | 'denied'): number =>
    Math.round(10 * rates.reduce((total, each) => total + each[field], 0)) / 10;
  return { admitted: sum('admitted'), denied: sum('denied') };
}
