// Names, which anybody may have written: always text, never longer than the eye can use.
import { shortened } from "../format.ts";

/** How many more letters there is room for than in a window of 1,280 pixels. */
const room = (): number => Math.max(1, (globalThis.innerWidth ?? 0) / 1400);

/** A name, shortened; in full when pointed at. With `grows` it has more letters in a wide window. */
export function Name({ of, most = 90, grows = false }: { of: string; most?: number; grows?: boolean }) {
  return <span class="name" title={shortened(of, 2000)}>{shortened(of, grows ? Math.round(most * room()) : most)}</span>;
}
