// The addresses of the page's data.

/**
 * The address of data below the page. The page's own address may lack the slash at its end, which frameworks such as Next.js remove.
 *
 * @param {string} path such as api/now
 * @param {{ origin: string, pathname: string }} page the address of the page, which a proxy may have changed
 */
export const addressOf = (path, { origin, pathname }) =>
  `${origin}${pathname.replace(/\/(index\.html\/?)?$/, '')}/${path}`;
