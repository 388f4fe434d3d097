// Text of others: of clients, of logs, of servers. Raw, it could change what a terminal shows of other lines.

/** Controls (C0, C1), formats (bidirectional text, zero width), separators of lines and paragraphs. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
const HIDDEN_BUT_LINE_FEED = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

const asCodePoint = (character: string): string => `\\u{${character.codePointAt(0)!.toString(16)}}`;

/** A text on one line, with `\u{1b}` for what would not be seen. */
export function printable(text: string): string {
  return text.toWellFormed().replace(HIDDEN, asCodePoint);
}

/** The same of a text of several lines. */
export function printableLines(text: string): string {
  return text.toWellFormed().replace(HIDDEN_BUT_LINE_FEED, asCodePoint);
}

/** The same of JSON: what it says stays what it is. */
export function printableJson(json: string): string {
  return json.replace(HIDDEN_BUT_LINE_FEED, (character) =>
    [...Array(character.length).keys()]
      .map((i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}
