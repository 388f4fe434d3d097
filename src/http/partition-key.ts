import { randomBytes } from 'node:crypto';
import { invalidOption } from '../common/errors.js';
import { lazy } from '../common/lazy.js';
import { checkSecret, keyedHash } from '../common/secret.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import type { LimiterDecision } from '../limiter/decision.js';

/** The parameter `pk` of each policy's items, by the policy's index. */
export type PartitionKeys = (decision: LimiterDecision) => readonly string[];

const hashBy = (secret: string) => keyedHash(secret, 'partition keys');

/** Hashes with a secret of this process. The limiters of the process share the secret, so equal keys give equal values. */
const ownHash = lazy(() => hashBy(randomBytes(32).toString('base64')));

/**
 * @param isCommon whether other processes may count the same quota
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`
 */
export function compilePartitionKey(option: unknown, isCommon: boolean): PartitionKeys | undefined {
  if (option === undefined || option === false) return undefined;
  if (option !== true) {
    const hash = hashBy(checkSecret('partitionKey', option));
    return partitionKeys(() => hash);
  }
  if (isCommon) {
    const fix =
      'With a `store` or a `limiter`, other processes may count the same quota and must show the same values. Pass a secret of 16 ' +
      'characters or more instead of true.';
    throw invalidOption('partitionKey', option, fix);
  }
  return partitionKeys(ownHash);
}

function partitionKeys(hashOf: () => (text: string) => Buffer): PartitionKeys {
  return ({ set, subject: { key } }) => {
    const hash = hashOf();
    const { names = [DEFAULT_DIMENSION] } = set.dimensions ?? {};
    // Equal texts must have different values in different dimensions.
    const parameters = names.map((name, i) => {
      const text = typeof key === 'string' ? key : key[i]!;
      return `;pk=:${hash(`${name}=${text}`).toString('base64')}:`;
    });
    return set.policies.map(({ by }) => parameters[names.indexOf(by)]!);
  };
}
