// The build puts these in place of the global names.
export { performance } from './virtual-time.js';
