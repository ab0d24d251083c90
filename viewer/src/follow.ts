// Following runs that are still being written: asks every two seconds while the page is looked at.
import type { Store } from "./data/store.ts";
import { Failure } from "./data/source.ts";
import { keyOf } from "./data/source.ts";
import type { Changes } from "./data/types.ts";

const EVERY = 2000;

/** Calls back with what is to be said ("" for nothing), and renews the store when runs came. Returns how to stop. */
export function follow(store: Store, generation: () => number, say: (sentence: string) => void): () => void {
  if (!store.source.follows) return () => undefined;
  let stopped = false;
  let timer: ReturnType<typeof setTimeout>;
  let lost = false;
  const look = async (): Promise<void> => {
    if (stopped) return;
    if (!document.hidden) {
      try {
        const changes = (await store.source.get(keyOf("changes", { ...store.always, since: generation() }))) as Changes;
        say(changes.state === "ok" ? "" : changes.message);
        if ((changes.generation !== generation() && changes.state !== "gone") || lost) store.changed();
        lost = false;
      } catch (error) {
        // The server's end is said once, and what is drawn stays.
        lost = true;
        say(error instanceof Failure ? `${error.what} ${error.todo}` : String(error));
      }
    }
    timer = setTimeout(() => void look(), EVERY);
  };
  timer = setTimeout(() => void look(), EVERY);
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}
