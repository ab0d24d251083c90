// The keys, and a page that lists them.
import { useEffect, useRef } from "preact/hooks";

const KEYS: readonly (readonly [string, string])[] = [
  ["/", "search ops, layers and lines"],
  ["1 … 7", "go to a page"],
  ["W S", "zoom in, out (timeline); also the wheel"],
  ["A D, ← →", "move left, right (timeline); also drag"],
  ["↑ ↓", "scroll lanes; next row of a table"],
  ["F", "fit the selection, or all of the run"],
  ["drag on the ruler", "measure a range"],
  ["T", "light or dark"],
  ["Esc", "close, then clear the range, then the selection"],
  ["?", "this list"],
];

export function Keys({ onClose }: { onClose: () => void }) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => box.current?.showModal(), []);
  return (
    <dialog ref={box} onClose={onClose} onClick={(event) => event.target === box.current && box.current?.close()} aria-label="Keys">
      <h2>Keys</h2>
      <dl class="keys">
        {KEYS.map(([key, what]) => [<dt key={key}><kbd>{key}</kbd></dt>, <dd key={`${key} is`}>{what}</dd>])}
      </dl>
      <form method="dialog"><button type="submit">Close</button></form>
    </dialog>
  );
}
