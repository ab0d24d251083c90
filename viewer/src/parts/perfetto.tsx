// "Open in Perfetto": hands the run's trace to Perfetto's own page, by the messages that it listens to.
import { useState } from "preact/hooks";
import { keyOf } from "../data/source.ts";
import type { Store } from "../data/store.ts";

/** Opens Perfetto's page and sends it the trace once it answers. */
async function open(store: Store, run: string | undefined, title: string): Promise<void> {
  // The window has to be opened while the click is being handled, before anything is waited for.
  const other = window.open("about:blank");
  if (!other) throw new Error("The browser did not open a window.");
  const { page } = (await store.source.get(keyOf("perfetto", store.always))) as { page: string };
  const address = new URL(page, location.href);
  const [answer] = await Promise.all([fetch(`api/${keyOf("trace", { ...store.always, run })}`, { credentials: "same-origin" })]);
  if (!answer.ok) {
    other.close();
    throw new Error("There is no trace of this run.");
  }
  const buffer = await answer.arrayBuffer();
  other.location.href = address.href;
  await new Promise<void>((done, fail) => {
    const knock = setInterval(() => (other.closed ? stop(new Error("The window was closed.")) : other.postMessage("PING", address.origin)), 100);
    const hear = (event: MessageEvent): void => {
      if (event.source === other && event.origin === address.origin && event.data === "PONG") stop();
    };
    const stop = (error?: Error): void => {
      clearInterval(knock);
      removeEventListener("message", hear);
      if (error) fail(error);
      else done();
    };
    addEventListener("message", hear);
  });
  other.postMessage({ perfetto: { buffer, title: title || "stepscope", fileName: "stepscope.json" } }, address.origin);
}

export function OpenInPerfetto({ store, run, title }: { store: Store; run: string | undefined; title: string }) {
  const [said, say] = useState("");
  const click = (): void => {
    say("opening …");
    open(store, run, title).then(() => say(""), (error: unknown) => say(error instanceof Error ? error.message : String(error)));
  };
  return <span class="perfetto"><span role="status" class="quiet">{said}</span><button type="button" class="plain" title="Open this run in Perfetto" onClick={click}>Perfetto ↗</button></span>;
}
