// Projects of users in temporary folders: packages from npm, in fixed versions, and Headgate as it is built.
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ensureBuilt } from '../../scripts/lib/built.mjs';
import { root } from '../../scripts/lib/run.mjs';

const execute = promisify(execFile);

/** Versions by the names of packages. */
type Packages = Readonly<Record<string, string>>;

let built: string | undefined;

/** Copies the build to a folder of this process. Returns the folder. */
function copyBuild(): string {
  ensureBuilt();
  const folder = mkdtempSync(join(tmpdir(), 'headgate-built-'));
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
  cpSync(join(root, 'dist'), join(folder, 'dist'), { recursive: true });
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as object;
  writeFileSync(
    join(folder, 'package.json'),
    JSON.stringify({ ...manifest, scripts: {}, devDependencies: {} }),
  );
  return folder;
}

/** Makes a project with the given packages and Headgate. */
export async function makeProject(packages: Packages, ...files: string[]): Promise<string> {
  const headgate = (built ??= copyBuild());
  const project = mkdtempSync(join(tmpdir(), 'headgate-project-'));
  const dependencies = { ...packages, headgate: `file:${headgate}` };
  mkdirSync(project, { recursive: true });
  writeFileSync(
    join(project, 'package.json'),
    JSON.stringify({ private: true, type: 'module', dependencies }),
  );
  for (const file of files) cpSync(join(root, 'test/slow', file), join(project, file.replace(/.*\//, '')));
  // A link would let Headgate find the packages of this repository.
  const quiet = ['--install-links', '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error'];
  await execute('npm', ['install', ...quiet], { cwd: project }).catch(
    (error: Error & { stderr?: string }) => {
      rmSync(project, { recursive: true, force: true });
      throw new Error(`npm could not install ${Object.keys(packages).join(', ')}:\n${error.stderr}`, {
        cause: error,
      });
    },
  );
  return project;
}

/**
 * Installs a program from npm, which npx keeps.
 *
 * @param name the package, and the program in it
 * @returns the program's path
 * @throws if npm cannot install the package, with npm's reason
 */
export async function getProgram(name: string, version: string): Promise<string> {
  const args = ['--yes', '--loglevel=error', `--package=${name}@${version}`, '-c', `command -v ${name}`];
  const { stdout } = await execute('npx', args, { cwd: tmpdir() }).catch(
    (error: Error & { stderr?: string }) => {
      throw new Error(`npm could not install ${name} ${version}:\n${error.stderr}`, { cause: error });
    },
  );
  return stdout.trim();
}

/** Runs a program in a project, and returns the program's standard output. A failure's error contains the output. */
export async function runIn(
  project: string,
  command: string,
  args: string[],
  env: NodeJS.ProcessEnv = {},
): Promise<string> {
  const options = { cwd: project, env: { ...process.env, ...env }, timeout: 120_000 };
  const { stdout } = await execute(command, args, options).catch(
    (error: Error & { stdout?: string; stderr?: string }) => {
      throw new Error(`${command} ${args.join(' ')} failed:\n${error.stdout}\n${error.stderr}`);
    },
  );
  return stdout;
}
