// The libraries, which earlier scripts of the page define as globals.

/** @type {any} */
const globals = globalThis;
const { h, render } = globals.preact;

export const { useState, useEffect, useRef } = globals.preactHooks;

/** @type {(strings: TemplateStringsArray, ...values: unknown[]) => any} */
export const html = globals.htm.bind(h);

export const renderPage = render;
