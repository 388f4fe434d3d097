export { TestClock } from './testing/clock.js';
