export type Body = Readonly<Record<string, unknown>>;

/** A request without an answer: one that the page would not send, or the application's mistake. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError';
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

export function refuse(message: string, status = 400): never {
  throw new RefusedError(message, status);
}

/** The most bytes of a body. A key may have any length, but a body may not. */
const MAX_BODY_BYTES = 64_000;

export const MAX_IMPORT_BYTES = 256_000;

/** @param most the most bytes @throws RefusedError unless the body is a small JSON object */
export async function bodyOf(request: Request, most = MAX_BODY_BYTES): Promise<Body> {
  const written = await request.text();
  if (Buffer.byteLength(written) > most) refuse(`The body is larger than ${most} bytes.`, 413);
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

const MAX_TEXTS = 1000;

/** A list of texts that is not empty. */
export function texts(body: Body, field: string): readonly string[] {
  const values = body[field];
  const isList = Array.isArray(values) && values.length > 0 && values.length <= MAX_TEXTS;
  if (!isList || !values.every((value) => typeof value === 'string'))
    refuse(`${field}: pass 1 to ${MAX_TEXTS} texts in an array.`);
  return values;
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
