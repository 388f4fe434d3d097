// Texts from clients, logs and servers. Unescaped, such a text could change how a terminal shows the surrounding lines.

/** Invisible characters: controls (C0, C1), formats (bidirectional text, zero width), separators of lines and paragraphs. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
const HIDDEN_BUT_LINE_FEED = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

const asCodePoint = (character: string): string => `\\u{${character.codePointAt(0)!.toString(16)}}`;

/** A text on one line. Invisible characters become escapes such as `\u{1b}`. */
export function printable(text: string): string {
  return text.toWellFormed().replace(HIDDEN, asCodePoint);
}

/** Like `printable`, for a text of several lines. */
export function printableLines(text: string): string {
  return text.toWellFormed().replace(HIDDEN_BUT_LINE_FEED, asCodePoint);
}

/** Like `printable`, for JSON: the text remains JSON with the same meaning. */
export function printableJson(json: string): string {
  return json.replace(HIDDEN_BUT_LINE_FEED, (character) =>
    [...Array(character.length).keys()]
      .map((i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}
