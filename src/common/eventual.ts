/** Receives the outcome of a question, once: an answer or an error. */
export interface Listener<T> {
  resolve(value: T): void;
  reject(error: Error): void;
}

/**
 * A promise that calls its single listener synchronously. Real promises between the layers of a store would cost each decision an
 * allocation and a microtask per layer.
 */
export class Eventual<T> implements Promise<T>, Listener<T> {
  declare listener: Listener<T> | undefined;
  /** The real promise, for callers that await instead of listening. */
  declare promise: Promise<T> | undefined;

  /** The constructor only assigns fields, and no member is private, because V8 initializes private members by a call. */
  constructor() {
    this.listener = undefined;
    this.promise = undefined;
  }

  get [Symbol.toStringTag](): string {
    return 'Eventual';
  }

  resolve(value: T): void {
    if (this.listener) this.listener.resolve(value);
    else this.promise = Promise.resolve(value);
  }

  reject(error: Error): void {
    if (this.listener) this.listener.reject(error);
    else this.promise = Promise.reject(error);
  }

  /**
   * Passes the outcome of any promise to a listener. Call `listen` once, instead of `then`. The listener must not throw, because the error
   * would reach the code that delivers the answer.
   */
  static listen<T>(to: Promise<T>, listener: Listener<T>): void {
    if (!(to instanceof Eventual)) return relay(to, listener);
    const eventual = to as Eventual<T>;
    if (eventual.promise) relay(eventual.promise, listener);
    else eventual.listener = listener;
  }

  /** The real promise, made at its first use. */
  made(): Promise<T> {
    return (this.promise ??= new Promise((resolve, reject) => (this.listener = { resolve, reject })));
  }

  then<R = T, S = never>(
    onValue?: ((value: T) => R | PromiseLike<R>) | null,
    onError?: ((error: unknown) => S | PromiseLike<S>) | null,
  ): Promise<R | S> {
    return this.made().then(onValue, onError);
  }

  catch<S = never>(onError?: ((error: unknown) => S | PromiseLike<S>) | null): Promise<T | S> {
    return this.made().catch(onError);
  }

  finally(onEnd?: (() => void) | null): Promise<T> {
    return this.made().finally(onEnd);
  }
}

function relay<T>(promise: Promise<T>, listener: Listener<T>): void {
  promise.then(
    (value) => listener.resolve(value),
    (error: Error) => listener.reject(error),
  );
}
