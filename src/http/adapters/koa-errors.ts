import type { ParameterizedContext } from 'koa';
import { FIELDS } from '../quota-fields.js';

/** The fields that an answer to an error must keep. */
const KEPT = [...FIELDS, 'Retry-After'];

/** Koa removes all fields from the answer to an error, so the limiters' fields are set again when the answer is sent. */
export function keepFields(ctx: ParameterizedContext): void {
  const { res, onerror } = ctx;
  ctx.onerror = (error) => {
    const fields = KEPT.flatMap((name) => {
      const value = res.getHeader(name);
      return value === undefined ? [] : [{ name, value }];
    });
    const writeHead = res.writeHead.bind(res) as (...args: unknown[]) => typeof res;
    res.writeHead = (...args: unknown[]) => {
      for (const { name, value } of fields) if (!res.hasHeader(name)) res.setHeader(name, value);
      return writeHead(...args);
    };
    onerror.call(ctx, error);
  };
}
