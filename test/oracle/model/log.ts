// A change that the store logs for operators.
export interface Logged {
  readonly at: number;
  readonly name: string;
  readonly action: string;
  readonly key?: string;
  readonly by?: string;
  readonly keys: number;
  readonly forMs: number;
  readonly from: string;
  readonly before?: unknown;
  readonly after?: unknown;
}
