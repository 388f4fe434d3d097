import { existsSync } from 'node:fs';
import { read, run } from './run.mjs';

/**
 * Whether this process may install Debian packages: apt is there, and root or sudo without a password, and nobody has
 * set HEADGATE_APT=no.
 */
export function canInstall() {
  return (
    process.env['HEADGATE_APT'] !== 'no' &&
    read('apt-get', ['--version']) !== undefined &&
    asRoot('true') === 0
  );
}

/**
 * Says that it installs one Debian package, and does, without starting or enabling the service it may bring. `backports` is a release whose
 * backports archive is used, and added as a source of its own, when the configured sources lack the package.
 * @param {string} name
 * @param {{ backports?: string, service?: string }} [options]
 * @returns {boolean} whether it is installed now
 */
export function aptInstall(name, { backports, service } = {}) {
  console.log(`Installing ${name} with apt-get, as root. HEADGATE_APT=no leaves that to you.`);
  if (asRoot('apt-get -qq update') !== 0) return false;
  /** @type {string[]} */
  const target = [];
  if (!hasCandidate(name)) {
    if (!backports || codename() !== backports) return false;
    if (!addBackports(backports)) return false;
    target.push('-t', `${backports}-backports`);
  }
  return asRoot(installScript, [service ?? '', ...target, name]) === 0;
}

// policy-rc.d is Debian's switch against starting services during an installation; the one found is put back.
const installScript = `
  set -eu
  service=$1; shift
  policy=/usr/sbin/policy-rc.d
  saved=$(mktemp -d)
  [ ! -e $policy ] || mv $policy "$saved/"
  trap 'rm -f $policy; [ ! -e "$saved/policy-rc.d" ] || mv "$saved/policy-rc.d" $policy; rm -rf "$saved"' EXIT
  printf '#!/bin/sh\\nexit 101\\n' > $policy
  chmod 755 $policy
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \\
    -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@" >&2
  if [ -n "$service" ] && command -v systemctl >/dev/null; then systemctl -q disable "$service"; fi
`;

/** @param {string} name */
function hasCandidate(name) {
  const policy = read('apt-cache', ['policy', name]) ?? '';
  return /Candidate: (?!\(none\))/.test(policy);
}

function codename() {
  return /^VERSION_CODENAME=(\w+)$/m.exec(read('cat', ['/etc/os-release']) ?? '')?.[1];
}

/**
 * Adds the backports archive from the mirror this machine already uses.
 * @param {string} release
 */
function addBackports(release) {
  const file = `/etc/apt/sources.list.d/${release}-backports.sources`;
  if (existsSync(file)) return true;
  const targets = read('apt-get', ['indextargets', '--format', '$(RELEASE) $(REPO_URI)']) ?? '';
  const mirror = new RegExp(`^${release} (\\S+)$`, 'm').exec(targets)?.[1] ?? 'http://deb.debian.org/debian/';
  const source = [
    'Types: deb',
    `URIs: ${mirror}`,
    `Suites: ${release}-backports`,
    'Components: main',
    'Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg',
  ].join('\n');
  return asRoot('printf "%s\\n" "$1" > "$2" && apt-get -qq update', [source, file]) === 0;
}

/**
 * Runs a shell script as root. Its output goes to standard error.
 * @param {string} script
 * @param {string[]} [args] the script's $1, $2, ...
 */
function asRoot(script, args = []) {
  const command = ['sh', '-c', script, 'sh', ...args];
  if (process.getuid?.() === 0) return run('sh', command.slice(1));
  return read('sudo', ['-n', 'true']) === undefined ? 1 : run('sudo', ['-n', ...command]);
}
