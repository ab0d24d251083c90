// What stands where a value is not here (yet): loading, failed, partial; each with a sentence.
import type { ComponentChildren } from "preact";
import type { Asked } from "../data/store.ts";
import type { Said } from "../data/types.ts";

/** A page or a part of it that has nothing to show, and what to do about that. */
export function Empty({ what, todo = "", tone = "" }: { what: string; todo?: string; tone?: string }) {
  // What there is not, and after a semicolon what to do about it.
  const [said, ...rest] = todo ? [what] : what.split("; ");
  const next = todo || rest.join("; ");
  return (
    <div class={`empty ${tone}`} role="status">
      <p>{withCode(sentence(said ?? ""))}</p>
      {next && <p class="quiet">{withCode(sentence(next))}</p>}
    </div>
  );
}

/** With a capital at its beginning and a full stop at its end. */
export function sentence(words: string): string {
  const text = words.trim();
  return /^[a-z]+\b/.test(text) && !/[.!?…:]$/.test(text) ? `${text.charAt(0).toUpperCase()}${text.slice(1)}.` : text;
}

/** Text in which what stands between backticks is code. */
export function withCode(sentence: string): ComponentChildren {
  return sentence.split("`").map((part, place) => (place % 2 ? <code key={place}>{part}</code> : part));
}

/** Draws a value when it is here. One that is being renewed stays, a failed one says why. */
export function Await<T>({ of, children }: { of: Asked<T> | undefined; children: (value: T) => ComponentChildren }) {
  if (of?.value !== undefined) {
    return (
      <>
        {of.failure && <p class="stale" role="status">{of.failure.what} What is shown is from before. {withCode(of.failure.todo)}</p>}
        {children(of.value)}
      </>
    );
  }
  if (of?.failure) return <Empty what={of.failure.what} todo={of.failure.todo} tone={of.failure.status === 422 || of.failure.status === 404 ? "" : "failed"} />;
  return <div class="empty loading" role="status" aria-live="polite"><p>Loading …</p></div>;
}

/** What is folded, missing or estimated in what was drawn. */
export function Notes({ of }: { of: Said | undefined }) {
  const sentences = [...(of?.folded ?? []), ...(of?.notes ?? [])];
  if (!sentences.length) return null;
  return <ul class="notes">{sentences.map((sentence, place) => <li key={place}>{withCode(sentence)}</li>)}</ul>;
}
