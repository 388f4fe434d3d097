/** A parsed body. */
export type Body = Readonly<Record<string, unknown>>;

/** A request that the page would not send. */
export class InputError extends Error {
  override readonly name = 'InputError';
}

export function refuse(message: string): never {
  throw new InputError(message);
}

/** The longest text of a field: a key may have any length, but a body may not. */
const MAX_BODY_BYTES = 64_000;

/** @throws InputError unless the body is a small JSON object */
export async function bodyOf(request: Request): Promise<Body> {
  const written = await request.text();
  if (written.length > MAX_BODY_BYTES) refuse(`The body is larger than ${MAX_BODY_BYTES} bytes.`);
  let body: unknown;
  try {
    body = JSON.parse(written);
  } catch {
    refuse('The body is not JSON.');
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) refuse('The body is not an object.');
  return body as Body;
}

/** A text that is not empty. */
export function text(body: Body, field: string): string {
  const value = body[field];
  if (typeof value !== 'string' || value.trim() === '') refuse(`${field}: missing. Pass a text.`);
  return value;
}

export function flag(body: Body, field: string): boolean {
  const value = body[field] ?? false;
  if (typeof value !== 'boolean') refuse(`${field}: pass true or false.`);
  return value;
}

export function optional<T>(
  body: Body,
  field: string,
  read: (body: Body, field: string) => T,
): T | undefined {
  return body[field] === undefined || body[field] === null ? undefined : read(body, field);
}

export function choice<const T extends string>(field: string, value: string, known: readonly T[]): T {
  return known.find((each) => each === value) ?? refuse(`${field}: pass one of ${known.join(', ')}.`);
}
