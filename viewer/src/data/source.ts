// Where values come from, behind one interface: a server (`view`, TensorBoard), or the report itself.
import { decode } from "./frame.ts";

export type Params = Readonly<Record<string, string | number | undefined>>;

/** Why a value is not there: a sentence for people, and what they can do. */
export class Failure extends Error {
  constructor(
    readonly what: string,
    readonly todo = "",
    readonly status = 0,
  ) {
    super(what);
  }
}

export interface Source {
  readonly place: "view" | "report" | "tensorboard";
  /** Whether new runs may come. */
  readonly follows: boolean;
  get(key: string): Promise<unknown>;
}

/** `name?k=v&k2=v2`: keys sorted, values escaped, what has no value left out. */
export function keyOf(name: string, params: Params = {}): string {
  const parts = Object.entries(params)
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([key, value]) => `${key}=${encodeURIComponent(String(value).toWellFormed())}`)
    .sort();
  return parts.length ? `${name}?${parts.join("&")}` : name;
}

/** Resources of a server, below the page's own address. */
export class HttpSource implements Source {
  readonly follows = true;

  constructor(
    readonly place: "view" | "tensorboard",
    private readonly fetcher: typeof fetch = (...given) => fetch(...given),
  ) {}

  async get(key: string): Promise<unknown> {
    let answer: Response;
    try {
      answer = await this.fetcher(`api/${key}`, { credentials: "same-origin" });
    } catch {
      throw new Failure(
        this.place === "view" ? "`stepscope view` has ended." : "TensorBoard does not answer.",
        "Start it again: this page goes on by itself.",
      );
    }
    if (answer.ok) return decode(await answer.arrayBuffer());
    const said: unknown = await answer.json().catch(() => null);
    const error = (said as { error?: { what?: string; todo?: string } } | null)?.error;
    throw new Failure(error?.what ?? `The server answered ${answer.status}.`, error?.todo ?? "", answer.status);
  }
}

async function inflated(base64: string): Promise<ArrayBuffer> {
  const bytes = Uint8Array.from(atob(base64.trim()), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

/** Resources that a report holds in itself, unpacked when they are asked for. */
export class EmbeddedSource implements Source {
  readonly place = "report";
  readonly follows = false;
  private readonly single = new Map<string, Element>();
  private readonly bundled = new Map<string, Element[]>();
  private readonly bundles = new Map<string, Promise<Record<string, unknown>[]>>();

  constructor(document: Document) {
    for (const element of document.querySelectorAll('script[type="application/x-stepscope"]')) {
      const key = element.getAttribute("data-resource");
      const bundle = element.getAttribute("data-bundle");
      if (key !== null) this.single.set(key, element);
      else if (bundle !== null) this.bundled.set(bundle, [...(this.bundled.get(bundle) ?? []), element]);
    }
  }

  async get(key: string): Promise<unknown> {
    const element = this.single.get(key);
    if (element) return decode(await inflated(element.textContent ?? ""));
    const name = key.split("?")[0] ?? key;
    for (const bundle of await this.bundle(name)) {
      if (Object.hasOwn(bundle, key)) return bundle[key];
    }
    throw new Failure("This detail is not in the report.", "`stepscope view` shows it.", 404);
  }

  private bundle(name: string): Promise<Record<string, unknown>[]> {
    let found = this.bundles.get(name);
    if (!found) {
      const elements = this.bundled.get(name) ?? [];
      found = Promise.all(
        elements.map(async (one) => decode(await inflated(one.textContent ?? "")) as Record<string, unknown>),
      );
      this.bundles.set(name, found);
    }
    return found;
  }
}

/** The source of the place that this page is in. */
export function sourceHere(document: Document): Source {
  const place = document.querySelector('meta[name="stepscope-place"]')?.getAttribute("content");
  if (place === "report") return new EmbeddedSource(document);
  return new HttpSource(place === "tensorboard" ? "tensorboard" : "view");
}
