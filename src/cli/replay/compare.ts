import type { Replay, ReplayResult } from './replay.js';

/** What two sets of policies do to one log. */
export interface Comparison {
  /** What the second one does. */
  readonly result: ReplayResult;
  /** Policies of the second set that are not replayed. */
  readonly left: readonly string[];
  /** Clients that both deny, or one of them alone. */
  readonly both: number;
  readonly firstOnly: number;
  readonly secondOnly: number;
}

/** Compares two replays of the same requests: their clients have the same numbers. */
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
