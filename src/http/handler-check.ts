import type { DeniedDecision } from '../common/decision.js';
import type { Warn } from '../common/warnings.js';
import { isPromise } from '../contract/store.js';

type Handler<Req, Res> = (request: Req, response: Res, decision: DeniedDecision) => unknown;

/** Fields that only decisions have. A handler that reads such a field from an argument expects the decision there. */
const FIELDS = ['retryAfterMs', 'resetAfterMs', 'remaining', 'policies', 'reason'] as const;

/**
 * The same handler, with a warning at the first denial if the handler uses its arguments in another order. Compilers find the mistake, but
 * JavaScript answers clients with an empty body or with 500.
 *
 * @param signature the handler's arguments in this framework
 */
export function checkedHandler<Req extends object, Res>(
  handler: Handler<Req, Res>,
  signature = 'handler(request, response, decision)',
  warn: Warn,
): Handler<Req, Res> {
  const report = (symptom: string): void =>
    warn(
      'HEADGATE_HANDLER_ARGUMENTS',
      `The option \`handler\` ${symptom}. Its signature is ${signature}: check the order of the arguments, and send the answer by the second.`,
    );
  let isChecked = false;
  return (request, response, decision) => {
    if (isChecked) return handler(request, response, decision);
    isChecked = true;
    return checkCall(handler, [request, response, decision], report);
  };
}

function checkCall<Req extends object, Res>(
  handler: Handler<Req, Res>,
  [request, response, decision]: [Req, Res, DeniedDecision],
  report: (symptom: string) => void,
): unknown {
  const failed = (error: unknown): never => {
    if (error instanceof TypeError) report(`threw '${error.message}'`);
    throw error;
  };
  const decisionFields = Object.keys(decision).length;
  const body = bodyOf(request);
  const stopWatching = [request, response].map((argument) => watchReads(argument, report));
  try {
    const answered = handler(request, response, decision);
    if (Object.keys(decision).length > decisionFields)
      report('wrote to the decision instead of the response');
    if ((request as unknown) !== response && bodyOf(request) !== body)
      report('set the body of the request instead of the response');
    // Fastify's replies can be awaited, but their `then` returns no promise.
    return isPromise(answered)
      ? Promise.resolve(answered).then((value) => checkResult(value, response, report), failed)
      : checkResult(answered, response, report);
  } catch (error) {
    return failed(error);
  } finally {
    for (const stop of stopWatching) stop();
  }
}

/** A value that a handler returns is not sent, because denials are answered by the handler's second argument. */
function checkResult(answered: unknown, response: unknown, report: (symptom: string) => void): unknown {
  // Fastify's replies have `sent`, Node's responses `headersSent`. Assignments in Koa and Hono (`ctx.body = ...`) return a value, too.
  const { sent, headersSent = sent } = response as { sent?: boolean; headersSent?: boolean };
  const isUnsent = headersSent === false && answered !== undefined && answered !== response;
  if (answered instanceof Response) report('returned a Response, which is not sent');
  else if (isUnsent) report('returned a value, which is not sent');
  return answered;
}

const bodyOf = (request: object): unknown => (request as { body?: unknown }).body;

/** Reports reads of a decision's fields from an argument that is not the decision. @returns a function that stops the reports */
function watchReads(argument: unknown, report: (symptom: string) => void): () => void {
  const target = Object(argument) as object;
  const watched = Object.isExtensible(target) ? FIELDS.filter((field) => !(field in target)) : [];
  for (const field of watched) {
    const get = (): void => report(`read \`${field}\` from an argument that is not the decision`);
    Object.defineProperty(target, field, { configurable: true, get });
  }
  return () => {
    for (const field of watched) Reflect.deleteProperty(target, field);
  };
}
