class AbortListener {
  readonly runs = new Set<() => void>();
  readonly #signal: AbortSignal;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
    signal.addEventListener('abort', this);
  }

  handleEvent(): void {
    this.stop();
    for (const run of this.runs) run();
  }

  stop(): void {
    this.#signal.removeEventListener('abort', this);
    listeners.delete(this.#signal);
  }
}

const listeners = new WeakMap<AbortSignal, AbortListener>();

/**
 * Calls a function when a signal is aborted. All functions of a signal share a listener, because Node warns of a leak at the eleventh
 * listener, and a caller may pass one signal to many waits.
 *
 * @returns a function that prevents later calls of `run`
 */
export function onAbort(signal: AbortSignal | undefined, run: () => void): () => void {
  if (!signal) return () => {};
  let listener = listeners.get(signal);
  if (!listener) listeners.set(signal, (listener = new AbortListener(signal)));
  const { runs } = listener;
  runs.add(run);
  return () => {
    if (runs.delete(run) && runs.size === 0) listener.stop();
  };
}
