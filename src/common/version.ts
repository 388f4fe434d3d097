/** The package's version; `npm version` writes it. */
export const VERSION = '0.1.0';
