import type { Limiter } from '../limiter/limiter.js';
import type { Limits } from './limits.js';
import type { Published } from './published.js';
import type { AdminWarning } from './scope.js';
import type { FoundKey, Owner, State } from './state.js';

/** A question about a key, for the parts of features. */
export interface KeyQuestion {
  readonly state: State;
  readonly published: Published;
  /** The limiter's limits, and the limiter. Undefined if unknown. */
  readonly limits: Limits | undefined;
  readonly limiter: Limiter | undefined;
  /** The key by which the limiter counts, by its dimension. */
  readonly place: Record<string, string>;
  /** The owner of the key's state; of a tenant, then that of the limit's key. */
  readonly owners: readonly Owner[];
}

/** The answer of the policies to a key. Absent values are null. */
export interface PolicyAnswer {
  readonly allowed: boolean | null;
  readonly reason: string | null;
  readonly retryAfterMs: number | null;
}

export interface PartAnswer<Fields> {
  /** The fields of the view. */
  readonly fields: Fields;
  /** The state of the key that only the feature has. */
  readonly state?: FoundKey;
  readonly doubt?: AdminWarning | undefined;
  /** Replaces the answer of the policies. Absent if the feature does not decide about the key now. */
  readonly rule?: ((answer: PolicyAnswer) => PolicyAnswer) | undefined;
}

/** The part of a feature in the views of keys. */
export interface KeyPart<Fields extends object> {
  /** The fields if the limiter has no answer to the key. */
  readonly absent: Fields;
  of(question: KeyQuestion): Promise<PartAnswer<Fields>>;
}
