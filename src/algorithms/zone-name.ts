/** Words in time zone names whose capitals do not follow the usual rule. */
const SPELLINGS = new Map(
  [
    'ACT',
    'LHI',
    'NSW',
    'BajaNorte',
    'BajaSur',
    'ComodRivadavia',
    'Dar_es_Salaam',
    'DeNoronha',
    'DumontDUrville',
    'EasterIsland',
    'GB-Eire',
    'Isle_of_Man',
    'Knox_IN',
    'McMurdo',
    'Port-au-Prince',
    'Port_of_Spain',
  ].map((word) => [word.toLowerCase(), word]),
);

/**
 * A time zone's name in IANA's spelling, whatever its capitals were. Intl is not used, because Intl replaces aliases depending on the
 * version of Node. The state's key contains the name in the user's spelling, in lower case.
 */
export function zoneName(zone: string): string {
  const [area = '', ...places] = zone.toLowerCase().split('/');
  const hasCodes = places.length === 0 || area === 'etc';
  const spelled = (word: string): string =>
    SPELLINGS.get(word) ?? (hasCodes && isCode(word) ? word.toUpperCase() : capitalized(word));
  if (places.length === 0) return spelled(area);
  return [area === 'us' ? 'US' : capitalized(area), ...places.map(spelled)].join('/');
}

/** Whether a word is a code, such as GMT, NZ-CHAT, EST5EDT or GMT+5. */
function isCode(word: string): boolean {
  return word.length <= 3 || /[-+\d]/.test(word);
}

function capitalized(words: string): string {
  return words.replace(/(^|[_-])[a-z]/g, (start) => start.toUpperCase());
}
