import { CliError } from './errors.js';

/** Waits for an answer. @param message of the error after `ms` @throws CliError `UNREACHABLE`, or the rejection of `answer` */
export function withinLimit<T>(ms: number, answer: Promise<T>, message: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new CliError('UNREACHABLE', message)), ms);
  });
  return Promise.race([answer, late]).finally(() => clearTimeout(timer));
}
