// Differences that are known, and not mended yet. Each is one line, which goes when the defect goes.
import { ANY, type Decision, type LimiterDef } from './model/types.js';

interface Known {
  readonly why: string;
  /** The fields of the decision that may differ. */
  readonly fields: readonly (keyof Decision)[];
  /** @param isInFlight whether other requests were in flight */
  applies(got: Decision, expected: Decision, def: LimiterDef, isInFlight: boolean): boolean;
}

const known: readonly Known[] = [
  {
    why: 'The docs do not say which policy the reset of a banned key belongs to',
    fields: ['resetAfterMs'],
    applies: ({ reason }) => reason === 'banned',
  },
  {
    why: 'A denial that outlasts an override looks behind its end, where it may see the charge or the ban of a request in flight',
    fields: ['retryAfterMs', 'reason'],
    applies: ({ reason }, { policies }, _, isInFlight) =>
      isInFlight &&
      reason !== 'banned' &&
      policies.some(({ retryAfterMs }) => (retryAfterMs as unknown) === ANY),
  },
];

/** The expected decision, with the real fields where a known difference applies. */
export function withKnown(got: Decision, expected: Decision, def: LimiterDef, isInFlight: boolean): Decision {
  const fields = known
    .filter((each) => each.applies(got, expected, def, isInFlight))
    .flatMap((each) => each.fields);
  return { ...expected, ...Object.fromEntries(fields.map((field) => [field, got[field]])) };
}
