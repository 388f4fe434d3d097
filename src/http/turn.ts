/** As long as requests go on at once, every so many-th looks whether others follow in its turn: of pairs, not always the second. */
const LOOK_EVERY = 17;

let untilLook = LOOK_EVERY;
let isLooking = false;
/** Of this turn, since somebody looks. */
let requests = 0;
let isCrowded = false;
let isResuming = false;

/**
 * Lets an admitted request go on: at once, unless several come in each turn of the event loop. Then they go on when all that came in
 * the turn have been decided: a framework's code and what reads requests push each other out of the processor's caches if they
 * take turns, which costs Express a sixth of its time, and denials are answered before others are handled.
 */
export function goOn(next: () => void): void {
  // Of several limiters on its way a request waits for the first alone.
  if (isResuming) return next();
  if (!isLooking && (isCrowded || --untilLook === 0)) {
    isLooking = true;
    requests = 0;
    untilLook = LOOK_EVERY;
    setImmediate(look);
  }
  requests++;
  // One each, for its own asynchronous context, and its own errors.
  if (isCrowded) setImmediate(resume, next);
  else next();
}

function look(): void {
  isLooking = false;
  isCrowded = requests > 1;
}

function resume(next: () => void): void {
  isResuming = true;
  try {
    next();
  } finally {
    isResuming = false;
  }
}
