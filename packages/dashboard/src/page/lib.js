// The libraries, which earlier scripts of the page define as globals.

/** @type {any} */
const globals = globalThis;
const { h, render } = globals.preact;

export const { useState, useEffect, useRef } = globals.preactHooks;

/** @type {(strings: readonly string[], ...values: unknown[]) => any} */
const parse = globals.htm.bind(h);

/** The texts of each template, which htm recognizes by their identity. @type {WeakMap<readonly string[], readonly string[]>} */
const spaced = new WeakMap();

/**
 * The elements of a template. As in HTML, a line break is a space; htm itself would drop it. Line breaks at the ends of a template are dropped.
 *
 * @param {TemplateStringsArray} strings
 * @param {unknown[]} values
 */
export function html(strings, ...values) {
  let texts = spaced.get(strings);
  if (!texts) {
    const last = strings.length - 1;
    texts = strings.map((text, i) => {
      const begun = i === 0 ? text.replace(/^\s*\n\s*/, '') : text;
      return (i === last ? begun.replace(/\s*\n\s*$/, '') : begun).replace(/\s*\n\s*/g, ' ');
    });
    spaced.set(strings, texts);
  }
  return parse(texts, ...values);
}

export const renderPage = render;
