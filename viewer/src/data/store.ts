// Values by key: each is asked for once, kept while there is room, and asked for again when the runs changed.
import { defaultsOf } from "./defaults.ts";
import { Failure, keyOf, type Params, type Source } from "./source.ts";

/** What is known of a value. While a newer one is under way, the older stays in `value`. */
export interface Asked<T> {
  readonly state: "loading" | "ready" | "failed";
  readonly value: T | undefined;
  readonly failure: Failure | undefined;
}

/** One thing to ask for. */
export interface Request {
  readonly name: string;
  readonly params?: Params;
}

const NOTHING: Asked<never> = { state: "loading", value: undefined, failure: undefined };

/** How many values are kept; a tile is some 50 KB. */
const KEPT = 256;

export class Store {
  private readonly values = new Map<string, Asked<unknown>>();
  private readonly listeners = new Set<() => void>();
  private generation = 0;
  private told = false;
  /** Why detail is missing in a report, by resource. */
  folded: Readonly<Record<string, string>> = {};
  /** The run that is meant where none is named. */
  typical: number | undefined = undefined;
  /** What is sent with every request (the source of a TensorBoard). */
  always: Params = {};

  constructor(readonly source: Source) {}

  /** Calls back whenever something came. Returns how to stop that. */
  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  key({ name, params = {} }: Request): string {
    const defaults = defaultsOf(name, this.typical);
    const said = Object.entries(params).filter(([key, value]) => String(value) !== String(defaults[key] ?? ""));
    return keyOf(name, { ...this.always, ...Object.fromEntries(said) });
  }

  /** What is known of a value now; asks for it if nobody did. */
  ask<T>(request: Request): Asked<T> {
    const key = this.key(request);
    const known = this.values.get(key);
    if (known) {
      this.values.delete(key);
      this.values.set(key, known);
      return known as Asked<T>;
    }
    this.load(key, request.name);
    return (this.values.get(key) ?? NOTHING) as Asked<T>;
  }

  /** The value if it is here; asks for nothing. */
  peek<T>(request: Request): T | undefined {
    return this.values.get(this.key(request))?.value as T | undefined;
  }

  /** Runs came or changed: what is shown is asked for again, and stays until its successor is here. */
  changed(): void {
    this.generation += 1;
    const known = [...this.values];
    this.values.clear();
    for (const [key, asked] of known.slice(-24)) {
      this.values.set(key, asked);
      this.load(key, key.split("?")[0] ?? key);
    }
    this.tell();
  }

  private load(key: string, name: string): void {
    const generation = this.generation;
    const before = this.values.get(key)?.value;
    this.values.set(key, { state: "loading", value: before, failure: undefined });
    this.source.get(key).then(
      (value) => this.put(generation, key, { state: "ready", value, failure: undefined }),
      (error: unknown) => {
        const failure = error instanceof Failure ? error : new Failure(String(error), "Load the page again.");
        const sentence = this.folded[name];
        const said = failure.status === 404 && sentence ? new Failure(sentence, failure.todo, 404) : failure;
        this.put(generation, key, { state: "failed", value: before, failure: said });
      },
    );
  }

  private put(generation: number, key: string, asked: Asked<unknown>): void {
    if (generation !== this.generation) return;
    this.values.set(key, asked);
    for (const old of this.values.keys()) {
      if (this.values.size <= KEPT) break;
      this.values.delete(old);
    }
    this.tell();
  }

  private tell(): void {
    if (this.told) return;
    this.told = true;
    queueMicrotask(() => {
      this.told = false;
      for (const listener of this.listeners) listener();
    });
  }
}
