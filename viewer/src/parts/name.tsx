// Names, which anybody may have written: always text, never longer than the eye can use.
import { shortened } from "../format.ts";

/** A name, shortened; in full when pointed at. */
export function Name({ of, most = 90 }: { of: string; most?: number }) {
  return <span class="name" title={shortened(of, 2000)}>{shortened(of, most)}</span>;
}
