import { checkInteger } from '../../../common/validate.js';

export interface WeightOption {
  /** The weight of the tenant in policies with `share`, 1 to 1,000. @default the policy's weight */
  weight?: number | undefined;
}

export interface WeightQuery {
  /** The weight of the tenant in shared policies. Undefined if the policies' own weights count. */
  readonly weight?: number | undefined;
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` unless a weight is a whole number from 1 to 1,000 */
export function checkWeight(option: string, weight: unknown): number {
  return checkInteger(option, weight, 1, 1000);
}
