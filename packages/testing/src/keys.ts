const LONG = 'x'.repeat(10_240);

/** Keys that broke other limiters, each next to a similar key. */
export const AWKWARD: readonly string[] = [
  ...' |%|%20|%2520|%25|%#|%#x|{|}|%7b|%7d|{}|}{|{a}|a}|}a|{{a}}'.split('|'),
  ...'Ada|ada|ADA'.split('|'),
  ...':|::|a:|:a|a:b|a%3ab|default:a|a}f1|a}f1:p|*|user:1|user:1:9|user:*|?|[a]'.split('|'),
  ...['\0', 'a\0', '\0a', '\0\0', '\n', '\r\n', '\t', '\x7f', '%00', '%7f', '\\', '"', "'", 'a b', 'a  b'],
  ...['é', 'e\u0301', 'É', 'ß', '👍', '👍🏽', '😀😀', '\ud83d', '\ude00', '\ud83d\ud83d', '\ufffd', '%ufffd'],
  ...['\u2028', '\ufeff', '', LONG, `${LONG}y`, `y${LONG}`, '%'.repeat(50), '{'.repeat(129)],
  ...['\u0100\0', '\0\x01', 'x'.repeat(127), 'x'.repeat(128), 'x'.repeat(129)],
  ...'constructor|__proto__|toString|hasOwnProperty|0|-0|1|01|1e0|NaN|null|undefined'.split('|'),
];

/** The name and the keys for which a store keeps its longest keys. They differ only in the last character. */
export const LONGEST_KEYS = {
  name: 'n'.repeat(128),
  keys: ['a', 'b'].map((end) => `${'x'.repeat(127)}${end}`),
} as const;
