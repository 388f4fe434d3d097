import { access, constants, stat, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { failure, usageError } from '../errors.js';
import type { Io } from '../io.js';
import { reportPage, type Report } from './report-page.js';

/** Checks, before the work is done, whether a report can be written. @throws CliError */
export async function checkReportPath(path: string, logs: readonly string[], { cwd }: Io): Promise<string> {
  const file = resolve(cwd, path);
  if (logs.some((log) => resolve(cwd, log) === file)) {
    throw usageError(
      `--report: ${path} is a log that is read. Write the name of a new file: --report report.html.`,
    );
  }
  const found = await stat(file).catch(() => undefined);
  if (found?.isDirectory()) {
    throw usageError(
      `--report: ${path} is a directory. Write the name of a file in it: --report ${path}/report.html.`,
    );
  }
  try {
    await access(found ? file : dirname(file), constants.W_OK);
  } catch (error) {
    throw usageError(
      `--report: ${path} cannot be written: ${(error as Error).message}. Choose another place.`,
    );
  }
  return file;
}

/** Writes the page. @throws CliError `FAILED` */
export async function writeReport(file: string, report: Report): Promise<void> {
  try {
    await writeFile(file, reportPage(report));
  } catch (error) {
    throw failure(
      `--report: ${file} cannot be written: ${(error as Error).message}. Choose another place.`,
      error,
    );
  }
}
