// The libraries, which earlier scripts of the page define as globals.

/** @type {any} */
const globals = globalThis;
const { h, render } = globals.preact;

export const { useState, useEffect, useRef } = globals.preactHooks;

/** @type {(strings: readonly string[], ...values: unknown[]) => any} */
const parse = globals.htm.bind(h);

/** The texts of each template, which htm recognizes by their identity. @type {WeakMap<readonly string[], readonly string[]>} */
const spaced = new WeakMap();

/** The elements of a template. As in HTML, a line break is a space; htm itself would drop it. @param {TemplateStringsArray} strings @param {unknown[]} values */
export function html(strings, ...values) {
  let texts = spaced.get(strings);
  if (!texts) {
    texts = strings.map((text) => text.replace(/\s*\n\s*/g, ' '));
    texts = texts.map((text, i) =>
      i === 0 ? text.trimStart() : i === strings.length - 1 ? text.trimEnd() : text,
    );
    if (texts.length === 1) texts = [texts[0].trim()];
    spaced.set(strings, texts);
  }
  return parse(texts, ...values);
}

export const renderPage = render;
