// Messages for programs and command lines in the words of the page.
import { withoutPage } from 'headgate/admin';

const MINUTE_MS = 60_000;

/** The parts of messages that name options, literals of JavaScript and milliseconds, and the words of the page for them. */
const WORDS: readonly (readonly [part: RegExp, words: string])[] = [
  // The page makes one change at a time.
  [/^\[0\]: /, ''],
  [/, or set `raw: true`[^.]*\./, '.'],
  [/ Set `raw: true`[^.]*\./, ''],
  [/ Set `force: true`[^.]*\./, ''],
  [/Set `name` for such lines\./, 'Choose the limiter of lines without one.'],
  [/Set `for` to a duration, such as '2h'\./, 'Choose for how long.'],
  [/^the keys of /, 'The keys of '],
  [/Set `dimension` for a key of ([^.]+)\. Check the key and the name\./, 'It may be a key of $1.'],
  [/Set `dimension: ([^`]+)`\./, 'Open a key of the dimension $1.'],
  [/Pass one of: ([^.]+)\.$/, 'Open a key of: $1.'],
  [
    /^(?:for|duration): ("[^"]*") is not valid\. Pass whole milliseconds.*$/,
    '$1 is not a length of time. Write a number with a unit, up to 366 days: 15m, 2h, 7d.',
  ],
  [
    /^until: (.*) is not valid\. Pass a time in the future.*$/,
    '$1 is not a time in the future. Write it as 2030-01-31T12:00Z.',
  ],
  [
    /^policy: ("[^"]*"), at character \d+: .* is not (?:a quota|an algorithm|a whole number)\..*$/,
    '$1 is not a limit. Write a number, a slash and a window, such as 100/1m.',
  ],
  [
    /^policy: ("[^"]*"), at character \d+: ("[^"]*") is not a length of time\..*$/,
    '$1 is not a limit: $2 is not a length of time. Write a number with a unit, such as 100/10s, 100/15m or 100/1d.',
  ],
  [
    /^policy\.limit: (\S+) is not valid\. Pass a whole number.*$/,
    '$1 is not a limit. Write a whole number from 1 on, such as 100/1m. To deny all requests of a key, ban it.',
  ],
  [
    /^policy\.period: ("[^"]*") is not valid\. Use one of: (.*)\. It is .*$/,
    '$1 is not a period. This limit needs one of the calendar, such as 100/month. The periods are $2.',
  ],
  [
    /^override: the limiter has no policy named ("[^"]*")[^.]*\. Its policies are: ([^.]*)\. Pass .*$/,
    'The limiter has no policy named $1. Its policies are: $2.',
  ],
  [/^override: ("[^"]*") is not valid\. (?=The limiter has several policies)/, '$1 is not a limit. '],
  [/^(?:tier: )?the limiter/, 'The limiter'],
  [/Create it with (overrides: true|ban: \{\})\./, 'Its program can change that: `$1`.'],
  [
    /^Expected property name.*|^Unexpected (?:token|end).*|.* in JSON at position \d+.*$/,
    'The line is not valid JSON.',
  ],
];

/** The change of each policy by its name: { burst: '50/1s', 'a b': '9/1m' }. */
const BY_NAME = /Pass the change of each by its name: \{ (.+) \}\.$/;

/** A message without its page, in the words of the page. */
export function onPage(message: string): string {
  const plain = withoutPage(message);
  const text = WORDS.reduce((found, [part, words]) => found.replace(part, words), plain);
  return inSpans(
    text.replace(BY_NAME, (_, changes: string) => {
      const words = changes.split(', ').map((each) => each.replace(/^"?(.+?)"?: '(.*)'$/, '$1=$2'));
      return `Write the limit of each by its name: ${words.join(' ')}.`;
    }),
  );
}

/** Long times in milliseconds as minutes. */
const inSpans = (text: string): string =>
  text.replace(/\b(\d{5,}) ms\b/g, (_, ms: string) => `${Math.round(Number(ms) / MINUTE_MS) || 1} min`);
