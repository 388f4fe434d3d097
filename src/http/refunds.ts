import { inBackground } from '../common/background.js';
import type { LimiterDecision } from '../limiter/decision.js';
import type { CompiledOptions } from './compile-options.js';
import type { Framework } from './framework.js';

/** Returns the costs of requests whose outcome must not count. */
export class Refunds<Req extends object, Res> {
  readonly #framework: Framework<Req, Res>;
  readonly #options: CompiledOptions<Req, Res>;

  constructor(framework: Framework<Req, Res>, options: CompiledOptions<Req, Res>) {
    this.#framework = framework;
    this.#options = options;
  }

  /** Whether the end of a response may return its cost. The end of a connection does not show whether its messages were served. */
  mayFollow(res: Res): boolean {
    return this.#framework.neverCompletes?.(res) !== true;
  }

  /** Returns the cost of a request at the end of its response, if the outcome must not count. */
  async refund(decision: LimiterDecision, req: Req, res: Res, completed: boolean): Promise<void> {
    if (decision.repeated || !this.mayFollow(res)) return;
    const { skipSuccessfulRequests, skipFailedRequests, refundAborted, requestWasSuccessful } = this.#options;
    let isRefunded = refundAborted;
    if (completed) {
      const isSuccess = requestWasSuccessful
        ? await requestWasSuccessful(req, res)
        : this.#framework.getStatus(res) < 400;
      isRefunded = isSuccess ? skipSuccessfulRequests : skipFailedRequests;
    }
    // While the store is down, such charges expire by themselves.
    if (isRefunded) await inBackground('The cost of a request was not given back', decision.takeBack());
  }
}
