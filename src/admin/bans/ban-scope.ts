import { HeadgateError } from '../../common/errors.js';
import { dimensionsOfBans, type Published } from '../published.js';
import { checkKeys, MAX_NAMED, unknownScope, type AdminWarning } from '../scope.js';

/** The reason why a ban in a scope would have no effect, or `undefined`. */
export function cannotBan(published: Published, name: string, dimension: string): AdminWarning | undefined {
  const configurations = published.scopes.get(name);
  if (!configurations) return unknownScope(published, name);
  const no = (why: string): AdminWarning => ({
    code: 'NO_BAN',
    message: `the limiter ${JSON.stringify(name)} ${why}`,
  });
  // An instance without the option, as during a deployment, is not evidence about the keys that other instances ban.
  const dimensions = dimensionsOfBans(configurations);
  if (dimensions.includes(dimension)) return undefined;
  return dimensions.length === 0
    ? no('does not have the option `ban`, so it never checks for bans. Create it with ban: {}.')
    : no(`bans by ${dimensions[0]}, and not by ${dimension}. Set \`dimension: ${dimensions[0]}\`.`);
}

/** Warns if a ban is only partly effective. */
function partlyCannotBan({ scopes }: Published, name: string): AdminWarning | undefined {
  const configurations = scopes.get(name) ?? [];
  const without = configurations.filter(({ ban }) => ban === null).flatMap(({ instances }) => instances);
  if (without.length > 0) {
    const where = without.slice(0, MAX_NAMED).map(({ host, pid }) => `${host}:${pid}`);
    const message = `${without.length} instances of ${JSON.stringify(name)} do not have the option \`ban\`, and do not check for bans: ${where.join(', ')}.`;
    return { code: 'NO_BAN', message };
  }
  if (configurations.length > 0 && configurations.every(({ shadow }) => shadow))
    return {
      code: 'SHADOW',
      message: `the limiter ${JSON.stringify(name)} is a shadow, and denies no requests.`,
    };
  return undefined;
}

/**
 * Checks by the limiters' publications whether bans of a dimension's keys will be enforced in a scope.
 *
 * @param force whether a ban without effect only causes a warning
 * @throws HeadgateError `HEADGATE_UNKNOWN_LIMITER`, `HEADGATE_NO_BANS`
 */
export function checkBans(
  published: Published,
  name: string,
  dimension: string,
  force: boolean,
): AdminWarning | undefined {
  checkKeys(published, name, dimension);
  const doubt = cannotBan(published, name, dimension);
  if (doubt && !force) {
    const code = doubt.code === 'UNKNOWN_SCOPE' ? 'HEADGATE_UNKNOWN_LIMITER' : 'HEADGATE_NO_BANS';
    throw new HeadgateError(
      code,
      `${doubt.message} No key was banned. Set \`force: true\` to ban nevertheless.`,
    );
  }
  return doubt ?? partlyCannotBan(published, name);
}
