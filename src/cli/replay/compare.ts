import type { Replay, ReplayResult } from './replay.js';

/** The results of two sets of policies for one log. */
export interface Comparison {
  /** The result of the second set. */
  readonly result: ReplayResult;
  /** Policies of the second set that are not replayed. */
  readonly left: readonly string[];
  /** How many clients both sets deny, or only one of them. */
  readonly both: number;
  readonly firstOnly: number;
  readonly secondOnly: number;
}

/** Compares two replays of the same requests. A client has the same number in both. */
export function compare(first: Replay, second: Replay, left: readonly string[], top: number): Comparison {
  let [both, firstOnly, secondOnly] = [0, 0, 0];
  for (let client = 0; client < first.size; client++) {
    const [a, b] = [first.isDenied(client), second.isDenied(client)];
    if (a && b) both += 1;
    else if (a) firstOnly += 1;
    else if (b) secondOnly += 1;
  }
  return { result: second.result(top), left, both, firstOnly, secondOnly };
}
